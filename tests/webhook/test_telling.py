"""What is told of slots that were given together."""

from __future__ import annotations

from structlog.testing import capture_logs

from fairlead.doors.webhook.decision_log import tell
from fairlead.doors.webhook.metrics import Metrics
from fairlead.policy.groups.member import Place
from fairlead.policy.rule.choice import Choice
from fairlead.policy.slots.placing import Placing
from support.members import KEY, a_deployment
from support.policies import policy


def test_who_is_admitted_together_is_told_in_one_line_and_counted_by_tier() -> None:
    metrics, place = Metrics(), Place(policy(), a_deployment(10), KEY)
    choices = (Choice(1, "rule"), Choice(0, "rule"), Choice(0, "rule"), Choice(1, "fallback"))
    given = [("web-", place, Placing(slot, choice, "t")) for slot, choice in enumerate(choices, start=1)]
    with capture_logs() as told:
        tell(metrics, given)
    assert told == [
        {
            "event": "admitted",
            "log_level": "info",
            "group": "web: default Deployment/web (r1)",
            "pod": "web-",
            "pods": 4,
            "slots": "on-demand 1,4; spot 2-3",
            "reason": "fallback, rule",
        }
    ]
    counted = metrics.text().decode()
    assert 'fairlead_slots_taken_total{policy="web",tier="spot"} 2.0' in counted
    assert 'fairlead_slots_taken_total{policy="web",tier="on-demand"} 2.0' in counted


def test_a_slot_without_a_tier_is_told_as_nowhere() -> None:
    metrics, place = Metrics(), Place(policy(), a_deployment(10), KEY)
    with capture_logs() as told:
        tell(metrics, [("web-", place, Placing(7, Choice(None, "full"), "t"))])
    assert told[0]["slots"] == "nowhere 7"
    assert b'fairlead_slots_taken_total{policy="web",tier=""} 1.0' in metrics.text()


def test_of_many_names_a_line_has_the_first() -> None:
    place = Place(policy(), a_deployment(10), KEY)
    given = [(f"db-{slot}", place, Placing(slot, Choice(0, "rule"), "t")) for slot in (5, 4, 3, 2, 1)]
    with capture_logs() as told:
        tell(Metrics(), given)
    assert told[0]["pod"] == "db-1, db-2, db-3 and 2 more"
