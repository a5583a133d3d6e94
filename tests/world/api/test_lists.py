"""Lists: selectors, pages of one instant, versions."""

from __future__ import annotations

import pytest

from fairlead.world.api import Api, Page
from fairlead.world.listing import Listing
from fairlead.world.schema.resources import CONFIGMAPS, DEPLOYMENTS, EVENTS, NODES, PODS
from support.embedded import refused
from support.manifests import config_map, pod


def names(listing: Listing) -> list[str]:
    return [each["metadata"]["name"] for each in listing.items]


@pytest.fixture
def five(api: Api) -> Api:
    for name in "abcde":
        api.create(CONFIGMAPS, config_map(name), "default")
    return api


class TestPages:
    def test_together_they_are_the_list_as_it_was_at_the_first(self, five: Api) -> None:
        first = five.list(CONFIGMAPS, page=Page(limit=2))
        assert (names(first), first.remaining) == (["a", "b"], 3)
        five.delete(CONFIGMAPS, "c", "default")
        five.create(CONFIGMAPS, config_map("cc"), "default")
        five.patch(CONFIGMAPS, "d", {"data": {"key": "new"}}, "default")

        second = five.list(CONFIGMAPS, page=Page(limit=2, token=first.token))
        third = five.list(CONFIGMAPS, page=Page(limit=2, token=second.token))
        assert (names(second), names(third), third.token) == (["c", "d"], ["e"], "")
        assert second.items[1]["data"] == {"key": "value"}
        assert first.rv == second.rv == third.rv

    def test_a_token_whose_past_is_forgotten_offers_to_go_on_with_what_there_is(self, five: Api) -> None:
        first = five.list(CONFIGMAPS, page=Page(limit=2))
        five.create(CONFIGMAPS, config_map("cc"), "default")
        five.store.compact()
        error = refused(lambda: five.list(CONFIGMAPS, page=Page(limit=9, token=first.token)), 410, "Expired")
        token = error.token  # type: ignore[attr-defined]  # of answers.Expired
        assert names(five.list(CONFIGMAPS, page=Page(limit=9, token=token))) == ["c", "cc", "d", "e"]

    def test_how_many_remain_is_not_said_of_a_selection(self, five: Api) -> None:
        listed = five.list(CONFIGMAPS, fields="metadata.name!=a", page=Page(limit=2))
        assert (names(listed), listed.remaining) == (["b", "c"], None)

    @pytest.mark.parametrize("token", ["nonsense", "e30", "eyJ2IjoidjIiLCJydiI6MSwic3RhcnQiOiJhIn0"])
    def test_a_token_that_is_none_is_a_bad_request(self, five: Api, token: str) -> None:
        refused(lambda: five.list(CONFIGMAPS, page=Page(token=token)), 400, "BadRequest")


class TestVersions:
    def test_an_exact_version_is_read_from_the_past(self, five: Api) -> None:
        then = five.store.rv
        five.delete(CONFIGMAPS, "a", "default")
        past = five.list(CONFIGMAPS, page=Page(rv=str(then), match="Exact"))
        assert (names(past), past.rv) == (list("abcde"), then)
        assert names(five.list(CONFIGMAPS, page=Page(rv=str(then), match="NotOlderThan"))) == list("bcde")

    def test_a_version_of_the_future_is_too_large(self, five: Api) -> None:
        error = refused(lambda: five.list(CONFIGMAPS, page=Page(rv="999999")), 504, "Timeout")
        assert error.retry_after_s == 1

    @pytest.mark.parametrize(
        ("page", "code"),
        [
            (Page(rv="abc"), 400),
            (Page(match="Exact"), 422),
            (Page(rv="0", match="Exact"), 422),
            (Page(rv="1", match="Sometimes"), 422),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, five: Api, page: Page, code: int) -> None:
        refused(lambda: five.list(CONFIGMAPS, page=page), code)


class TestSelectors:
    def test_labels_select(self, api: Api) -> None:
        for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {})):
            api.create(PODS, pod(name, labels=labels), "default")
        assert names(api.list(PODS, labels="x in (1,2),x!=2")) == ["a"]
        assert names(api.list(PODS, labels="!x")) == ["c"]

    def test_fields_select_with_gos_zero_values(self, api: Api) -> None:
        api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
        api.create(PODS, pod("b"), "default")
        api.create(NODES, {"metadata": {"name": "n1"}})
        assert names(api.list(PODS, fields="spec.nodeName=n1")) == ["a"]
        assert names(api.list(PODS, fields="spec.nodeName=")) == ["b"]
        assert names(api.list(PODS, fields="status.phase=Pending,metadata.name!=a")) == ["b"]
        assert names(api.list(PODS, "other", fields="spec.nodeName=n1")) == []
        assert names(api.list(NODES, fields="spec.unschedulable=false")) == ["n1"]

    def test_events_are_found_by_what_they_are_about(self, api: Api) -> None:
        event = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default", "uid": "u"},
            "reason": "Because",
            "type": "Warning",
            "source": {"component": "me"},
        }
        api.create(EVENTS, event, "default")
        assert names(api.list(EVENTS, fields="involvedObject.name=a,type=Warning,source=me")) == ["e"]
        assert names(api.list(EVENTS, fields="reason=Other")) == []

    def test_a_field_that_cannot_be_selected_on_is_a_bad_request(self, api: Api) -> None:
        error = refused(lambda: api.list(PODS, fields="spec.foo=a"), 400, "BadRequest")
        assert error.message == "field label not supported: spec.foo"
        error = refused(lambda: api.list(DEPLOYMENTS, fields="spec.foo=a"), 400, "BadRequest")
        assert error.message.startswith('"spec.foo" is not a known field selector')
        refused(lambda: api.list(PODS, labels="a b"), 400, "BadRequest")
