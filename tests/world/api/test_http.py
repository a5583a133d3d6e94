"""The API over the wire: watches, representations, refusals, admission."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from fairlead.world.admission import AdmissionRequest
from fairlead.world.api import Api
from fairlead.world.http import Server, serve
from fairlead.world.schema.resources import CONFIGMAPS, CRDS, MUTATING_WEBHOOKS, NODES, PODS, SERVICE_ACCOUNTS
from support.manifests import config_map, pod
from support.wire import PATIENCE_S

Object = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Caller:
    """Talks to a served API; answers are (status, decoded body)."""

    def __init__(self, session: aiohttp.ClientSession, server: Server) -> None:
        self.session = session
        self.server = server

    async def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", accept: str = ""
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind, **({"Accept": accept} if accept else {})}
        url = self.server.address + path
        sent = None if data is None else io.BytesIO(data)
        async with self.session.request(method, url, data=sent, headers=headers) as response:
            text = await response.read()
            return response.status, msgspec.json.decode(text) if text.startswith(
                (b"{", b"[")
            ) else text.decode()

    def watch(self, path: str, accept: str = "", **query: str) -> Watcher:
        return Watcher(self, path, accept, {"watch": "true", **query})


class Watcher:
    """An open watch, read frame by frame."""

    def __init__(self, caller: Caller, path: str, accept: str, query: dict[str, str]) -> None:
        headers = {"Accept": accept} if accept else {}
        self._request = caller.session.get(caller.server.address + path, params=query, headers=headers)

    async def __aenter__(self) -> Watcher:
        self.response = await self._request.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.response.close()

    async def frame(self) -> tuple[str, Object]:
        async with asyncio.timeout(PATIENCE_S):
            found = msgspec.json.decode(await self.response.content.readline())
        return found["type"], found["object"]

    async def names(self, number: int) -> list[tuple[str, str]]:
        frames = [await self.frame() for _ in range(number)]
        return [(kind, item["metadata"].get("name", "")) for kind, item in frames]

    async def ended(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            return await self.response.content.readline() == b""


@pytest.fixture
async def server(api: Api) -> AsyncIterator[Server]:
    async with await serve(api, bookmark_every_s=0.05) as running:
        yield running


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(session, server)


class TestWatch:
    async def test_it_starts_with_what_there_is_and_goes_on(self, api: Api, caller: Caller) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        async with caller.watch(MAPS) as watch:
            assert await watch.names(1) == [("ADDED", "a")]
            api.create(CONFIGMAPS, config_map("b"), "default")
            api.patch(CONFIGMAPS, "b", {"data": {"x": "y"}}, "default")
            api.delete(CONFIGMAPS, "a", "default")
            assert await watch.names(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]

    async def test_from_a_version_it_gives_what_came_after(self, api: Api, caller: Caller) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        since = str(api.store.rv)
        api.create(CONFIGMAPS, config_map("b"), "default")
        async with caller.watch(MAPS, resourceVersion=since) as watch:
            assert await watch.names(1) == [("ADDED", "b")]

    async def test_an_initial_list_is_marked_off(self, api: Api, caller: Caller) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        }
        async with caller.watch(MAPS, **query) as watch:
            assert await watch.names(1) == [("ADDED", "a")]
            kind, mark = await watch.frame()
            assert (kind, mark["kind"]) == ("BOOKMARK", "ConfigMap")
            assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert mark["metadata"]["resourceVersion"] == str(api.store.rv)

    async def test_bookmarks_follow_what_happens_elsewhere(self, api: Api, caller: Caller) -> None:
        async with caller.watch(MAPS, resourceVersion=str(api.store.rv), allowWatchBookmarks="true") as watch:
            api.create(PODS, pod("a"), "default")
            version = ""
            while version != str(api.store.rv):
                kind, mark = await watch.frame()
                assert kind == "BOOKMARK"
                version = mark["metadata"]["resourceVersion"]

    async def test_a_version_that_was_compacted_away_is_gone_in_the_stream(
        self, api: Api, caller: Caller
    ) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        since = str(api.store.rv - 1)
        api.store.compact()
        async with caller.watch(MAPS, resourceVersion=since) as watch:
            assert watch.response.status == 200
            kind, status = await watch.frame()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert await watch.ended()

    async def test_what_leaves_the_selection_is_deleted_and_what_enters_is_added(
        self, api: Api, caller: Caller
    ) -> None:
        api.create(CONFIGMAPS, config_map("a", labels={"on": "1"}), "default")
        since = str(api.store.rv)
        async with caller.watch(MAPS, resourceVersion=since, labelSelector="on=1") as watch:
            api.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"on": "0"}}}, "default")
            gone = api.store.rv
            api.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"on": "0", "x": "y"}}}, "default")
            api.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"on": "1"}}}, "default")
            kind, left = await watch.frame()
            assert (kind, left["metadata"]["labels"]) == ("DELETED", {"on": "1"})
            assert left["metadata"]["resourceVersion"] == str(gone)
            assert (await watch.frame())[0] == "ADDED"

    async def test_other_namespaces_are_not_shown(self, api: Api, caller: Caller) -> None:
        async with caller.watch(MAPS, resourceVersion=str(api.store.rv)) as watch:
            api.create(CONFIGMAPS, config_map("a"), "kube-system")
            api.create(CONFIGMAPS, config_map("b"), "default")
            assert await watch.names(1) == [("ADDED", "b")]

    async def test_it_ends_when_its_time_is_up_and_when_the_server_closes(
        self, caller: Caller, server: Server
    ) -> None:
        async with caller.watch(MAPS, timeoutSeconds="1") as watch:
            assert await watch.ended()
        async with caller.watch(MAPS) as watch:
            closing = asyncio.create_task(server.close())
            assert await watch.ended()
            await closing

    async def test_rows_name_their_columns_once(self, api: Api, caller: Caller) -> None:
        async with caller.watch(MAPS, accept=TABLE) as watch:
            api.create(CONFIGMAPS, config_map("a"), "default")
            api.create(CONFIGMAPS, config_map("b"), "default")
            _, first = await watch.frame()
            _, second = await watch.frame()
            assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
            assert second["columnDefinitions"] is None
            assert second["rows"][0]["cells"] == ["b", 1, "0s"]

    async def test_each_change_is_encoded_once_for_all_watchers(self, api: Api, caller: Caller) -> None:
        since = str(api.store.rv)
        async with (
            caller.watch(MAPS, resourceVersion=since) as one,
            caller.watch(MAPS, resourceVersion=since) as two,
        ):
            api.create(CONFIGMAPS, config_map("a"), "default")
            assert await one.names(1) == await two.names(1)
        (change,) = api.store.changes(CONFIGMAPS, int(since))
        assert len(change.encoded) == 1


class TestRepresentations:
    async def test_tables_show_what_kubectl_prints(self, api: Api, caller: Caller) -> None:
        api.create(NODES, {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
        api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
        _, pods = await caller.call("GET", "/api/v1/pods", accept=TABLE)
        assert pods["rows"][0]["cells"] == [
            "a", "0/1", "Pending", "0", "0s", "<none>", "n1", "<none>", "<none>",
        ]  # fmt: skip
        assert pods["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        _, nodes = await caller.call("GET", "/api/v1/nodes/n1", accept=TABLE)
        assert nodes["rows"][0]["cells"][:3] == ["n1", "Unknown,SchedulingDisabled", "<none>"]

    async def test_custom_columns_are_read_by_their_paths(self, api: Api, caller: Caller) -> None:
        column = {
            "name": "Ready",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        }
        version = {"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": [column]}
        names = {"plural": "things", "kind": "Thing"}
        spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
        api.create(CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec})
        body = {"metadata": {"name": "t"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        status, _ = await caller.call("POST", "/apis/example.com/v1/things", body)
        assert status == 201
        _, table = await caller.call("GET", "/apis/example.com/v1/things", accept=TABLE)
        assert table["rows"][0]["cells"] == ["t", "True"]

    async def test_protobuf_offered_first_is_answered_in_json(self, caller: Caller) -> None:
        accept = "application/vnd.kubernetes.protobuf,application/json"
        status, body = await caller.call("GET", "/api/v1/namespaces/default", accept=accept)
        assert (status, body["kind"]) == (200, "Namespace")

    async def test_a_protobuf_body_is_read(self, api: Api, caller: Caller) -> None:
        def field(number: int, data: bytes) -> bytes:
            return bytes([number << 3 | 2, len(data)]) + data

        metadata = field(1, b"a") + field(11, field(1, b"k") + field(2, b"v"))
        body = field(1, metadata) + field(2, field(1, b"key") + field(2, b"value"))
        unknown = field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, body)
        kind = "application/vnd.kubernetes.protobuf"
        status, _ = await caller.call("POST", MAPS, b"k8s\x00" + unknown, kind=kind)
        assert status == 201
        made = api.get(CONFIGMAPS, "a", "default")
        assert (made["data"], made["metadata"]["labels"]) == ({"key": "value"}, {"k": "v"})

    async def test_events_are_one_object_in_two_shapes(self, caller: Caller) -> None:
        event = {
            "metadata": {"name": "e"},
            "eventTime": "2026-01-02T03:04:05.000000Z",
            "reportingController": "fairlead",
            "reportingInstance": "one",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
            "note": "there",
            "type": "Normal",
        }
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        status, made = await caller.call("POST", path, event)
        assert (status, made["apiVersion"], made["note"]) == (201, "events.k8s.io/v1", "there")
        _, seen = await caller.call("GET", "/api/v1/namespaces/default/events/e")
        assert (seen["message"], seen["involvedObject"]["name"]) == ("there", "a")

    async def test_discovery_knows_a_definition_at_once(self, api: Api, caller: Caller) -> None:
        names = {"plural": "things", "kind": "Thing", "shortNames": ["th"]}
        version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
        spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
        assert (await caller.call("GET", "/apis/example.com/v1"))[0] == 404
        api.create(CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec})
        _, found = await caller.call("GET", "/apis/example.com/v1")
        assert [each["name"] for each in found["resources"]] == ["things", "things/status"]
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        _, all_groups = await caller.call("GET", "/apis", accept=accept)
        assert "example.com" in [group["metadata"]["name"] for group in all_groups["items"]]
        _, index = await caller.call("GET", "/openapi/v3")
        url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"]
        assert (await caller.call("GET", url))[1]["components"]["schemas"]


# Ten lines of anchors that unfold to ten billion items.
LAUGHS = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 11)
)


class TestRefusals:
    @pytest.mark.parametrize(
        ("method", "path", "body", "kind", "code", "reason"),
        [
            ("POST", MAPS, b"{nonsense", "application/json", 400, "BadRequest"),
            ("POST", MAPS, b"", "application/json", 400, "BadRequest"),
            ("POST", MAPS, LAUGHS, "application/yaml", 400, "BadRequest"),
            ("POST", MAPS, b"x", "text/plain", 415, "UnsupportedMediaType"),
            ("POST", MAPS, b"k8s\x00\xff", "application/vnd.kubernetes.protobuf", 400, "BadRequest"),
            ("POST", MAPS, b'{"kind": "Pod"}', "application/json", 400, "BadRequest"),
            ("PATCH", f"{MAPS}/a", b"{}", "application/json", 415, "UnsupportedMediaType"),
            ("PUT", MAPS, b"{}", "application/json", 405, "MethodNotAllowed"),
            ("POST", "/api/v1/configmaps", b"{}", "application/json", 405, "MethodNotAllowed"),
            ("GET", "/api/v1/nothing", None, "application/json", 404, "NotFound"),
            ("GET", f"{MAPS}/a/status", None, "application/json", 404, "NotFound"),
            ("GET", f"{MAPS}?limit=x", None, "application/json", 400, "BadRequest"),
        ],
    )
    async def test_every_one_is_a_status(
        self, caller: Caller, method: str, path: str, body: bytes | None, kind: str, code: int, reason: str
    ) -> None:
        status, said = await caller.call(method, path, body, kind=kind)
        assert (status, said["kind"], said["code"], said["reason"]) == (code, "Status", code, reason)

    async def test_a_body_beyond_the_limit_is_too_large(self, caller: Caller) -> None:
        body = config_map("a", data={"k": "x" * 3_200_000})
        status, said = await caller.call("POST", MAPS, body)
        assert (status, said["reason"]) == (413, "RequestEntityTooLarge")

    async def test_a_large_object_is_stored_and_listed(self, caller: Caller) -> None:
        status, _ = await caller.call("POST", MAPS, config_map("a", data={"k": "x" * 900_000}))
        assert status == 201
        _, listed = await caller.call("GET", MAPS)
        assert len(listed["items"][0]["data"]["k"]) == 900_000

    async def test_unknown_fields_are_named_as_strictly_as_asked(self, api: Api, caller: Caller) -> None:
        body = {**config_map("a"), "nonsense": 1}
        status, said = await caller.call("POST", f"{MAPS}?fieldValidation=Strict", body)
        assert (status, 'unknown field "nonsense"' in said["message"]) == (400, True)
        async with caller.session.post(caller.server.address + MAPS, json=body) as response:
            assert response.status == 201
            assert response.headers["Warning"] == '299 - "unknown field \\"nonsense\\""'

    async def test_a_path_outside_the_api_is_not_found_in_plain_words(self, caller: Caller) -> None:
        assert await caller.call("GET", "/nowhere") == (404, "404 page not found\n")
        assert (await caller.call("GET", "/apis/nowhere/v1/things"))[0] == 404

    async def test_a_token_is_asked_for(self, api: Api) -> None:
        async with await serve(api, token="secret") as server, aiohttp.ClientSession() as session:
            async with session.get(f"{server.address}/api/v1/pods") as response:
                assert response.status == 401
            headers = {"Authorization": "Bearer secret"}
            async with session.get(f"{server.address}/api/v1/pods", headers=headers) as response:
                assert response.status == 200


class TestReviews:
    async def test_everybody_may_do_everything(self, caller: Caller) -> None:
        body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status, said = await caller.call("POST", path, body)
        assert (status, said["kind"], said["status"]) == (201, "SelfSubjectAccessReview", {"allowed": True})

    async def test_a_token_is_somebodys(self, caller: Caller) -> None:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        _, said = await caller.call("POST", path, {"spec": {"token": "x"}})
        assert said["status"]["authenticated"]
        _, said = await caller.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert said["status"]["userInfo"]["username"] == "system:admin"

    async def test_a_service_account_gets_a_token(self, api: Api, caller: Caller) -> None:
        api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "me"}}, "default")
        path = "/api/v1/namespaces/default/serviceaccounts/me/token"
        status, said = await caller.call("POST", path, {"spec": {}})
        assert (status, bool(said["status"]["token"])) == (201, True)


class _Slow:
    """An admitter that lets somebody else write first, a number of times."""

    def __init__(self, api: Api, times: int) -> None:
        self.api = api
        self.left = times

    async def admit(self, request: AdmissionRequest) -> Object | None:
        if self.left:
            self.left -= 1
            self.api.patch(CONFIGMAPS, "a", {"data": {f"other-{self.left}": "x"}}, "default")
        return request.object


class TestAdmission:
    async def test_a_patch_overtaken_by_another_write_is_made_anew(self, api: Api) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        async with await serve(api, admitter=_Slow(api, 2)) as server, aiohttp.ClientSession() as session:
            caller = Caller(session, server)
            kind = "application/merge-patch+json"
            status, made = await caller.call("PATCH", f"{MAPS}/a", {"data": {"mine": "y"}}, kind=kind)
        assert status == 200
        assert set(made["data"]) == {"key", "other-0", "other-1", "mine"}

    async def test_an_update_of_a_version_that_was_overtaken_is_a_conflict(self, api: Api) -> None:
        seen = api.create(CONFIGMAPS, config_map("a"), "default")
        async with await serve(api, admitter=_Slow(api, 1)) as server, aiohttp.ClientSession() as session:
            status, said = await Caller(session, server).call("PUT", f"{MAPS}/a", seen)
        assert (status, said["reason"]) == (409, "Conflict")

    async def test_a_webhook_that_cannot_be_reached_fails_the_write_or_is_ignored(
        self, api: Api, caller: Caller
    ) -> None:
        ca = base64.b64encode(b"").decode()
        hook = {
            "name": "hook.example.com",
            "clientConfig": {"url": "http://127.0.0.1:1/", "caBundle": ca},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                    "operations": ["CREATE"],
                }
            ],
            "matchConditions": [{"name": "not-b", "expression": "object.metadata.name != 'b'"}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        api.create(MUTATING_WEBHOOKS, {"metadata": {"name": "x"}, "webhooks": [hook]})
        status, said = await caller.call("POST", MAPS, config_map("a"))
        assert status == 500
        assert 'failed calling webhook "hook.example.com"' in said["message"]
        assert (await caller.call("POST", MAPS, config_map("b")))[0] == 201
        ignored = {"webhooks": [{**hook, "failurePolicy": "Ignore"}]}
        api.patch(MUTATING_WEBHOOKS, "x", ignored)
        assert (await caller.call("POST", MAPS, config_map("a")))[0] == 201
