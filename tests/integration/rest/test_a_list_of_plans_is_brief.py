"""A list of plans tells what each is for, and not the thousands of moves that it may name."""

import pytest

from controller.models import Plan
from tests.integration.rest.conftest import Caller

pytestmark = pytest.mark.django_db

CHOSEN = {
    "kind": "explicit",
    "brokers": [],
    "topics": [],
    "replication_factor": 0,
    "partitions": [{"topic": "orders", "partition": number, "replicas": [1, 2]} for number in range(100)],
    "undoes": None,
}


def test_the_moves_that_a_plan_names_are_told_with_it_alone(viewer: Caller) -> None:
    made = Plan.objects.create(
        kind="explicit", options=CHOSEN, phase="Draft", at_a_time=5, step_count=100, version=7,
        proposed_version=5,
    )  # fmt: skip
    [listed] = viewer.get("plans").json()["items"]
    assert listed["step_count"] == 100
    assert listed["options"] == {name: said for name, said in CHOSEN.items() if name != "partitions"}
    assert viewer.get(f"plans/{made.id}").json()["options"] == CHOSEN
