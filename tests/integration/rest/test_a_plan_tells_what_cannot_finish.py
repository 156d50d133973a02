"""REST tells of a plan what its page does: which of its moves cannot finish, since when, because of whom."""

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone

from controller.models import Broker, Partition, Plan, PlanStep
from runtime.models import Cluster
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.django_db


def a_plan_that_stalls(since: datetime) -> Plan:
    """Its second step fills broker 3, which is fenced; another plan's fills broker 4, which is so, too."""
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    for broker in (3, 4):
        cast.add_broker(broker, fenced=True, since=since)
    made = add_plan("Running")
    flights = cast.add_topic("flights", 3, [(1, 2)])
    cast.move(flights, 1, (3, 2), plan_id=made.id, plan_step=1)
    cast.move(flights, 2, (4, 2))
    return made


def told(viewer: Caller, plan: Plan) -> Any:
    return viewer.get(f"plans/{plan.id}").json()["stalled"]


def steps(viewer: Caller, plan: Plan) -> Any:
    return viewer.get(f"plans/{plan.id}/steps").json()["items"]


def test_it_is_told_of_its_own_moves_alone(viewer: Caller) -> None:
    since = cast.ago(minutes=8)
    made = a_plan_that_stalls(since)
    stalled = told(viewer, made)
    assert datetime.fromisoformat(stalled.pop("since")) == since
    assert stalled == {"moves": 1, "brokers": [3], "leaderless": 0}
    done, asked, waiting = steps(viewer, made)
    assert (asked["waits_for"], asked["leaderless"]) == ([3], False)
    assert datetime.fromisoformat(asked["stalled_since"]) == since
    assert [one["waits_for"] for one in (done, waiting)] == [[], []]
    assert [one["stalled_since"] for one in (done, waiting)] == [None, None]


def test_whoever_is_there_to_copy_from_is_missed_as_well(viewer: Caller) -> None:
    made = a_plan_that_stalls(cast.ago(minutes=8))
    Partition.objects.filter(topic__name="flights", partition=1).update(leader=-1)
    assert told(viewer, made)["leaderless"] == 1
    assert steps(viewer, made)[1]["leaderless"]


def test_nothing_is_told_where_all_goes_on_or_is_over(viewer: Caller) -> None:
    made = a_plan_that_stalls(cast.ago(minutes=8))
    Broker.objects.update(fenced=False)
    nothing: dict[str, object] = {"moves": 0, "since": None, "brokers": [], "leaderless": 0}
    assert told(viewer, made) == nothing
    Broker.objects.filter(broker_id=3).update(fenced=True)
    PlanStep.objects.filter(plan=made).update(state="Done")
    assert told(viewer, made) == nothing


def test_its_tag_is_another_when_a_broker_is_lost(viewer: Caller) -> None:
    """Nothing of the plan changes by that: whoever asked by the tag was told that nothing is new."""
    made = a_plan_that_stalls(timezone.now())
    Broker.objects.update(fenced=False)
    tag = viewer.get(f"plans/{made.id}")["ETag"]
    assert viewer.get(f"plans/{made.id}", If_None_Match=tag).status_code == 304
    Broker.objects.filter(broker_id=3).update(fenced=True)
    Cluster.objects.update(metadata_version=88_413)
    assert viewer.get(f"plans/{made.id}", If_None_Match=tag).json()["stalled"]["moves"] == 1
