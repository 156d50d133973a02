"""The page of a plan says what stands still while every broker lives, and which plan takes another back."""

import pytest
from django.test import Client
from django.utils import timezone

from controller.models import Arrival, PartitionProgress, Plan
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.django_db


def a_plan_of_which_nothing_comes() -> Plan:
    """For six minutes broker 1 has got no byte of flights-1."""
    made = add_plan("Running", started_at=cast.ago(minutes=21))
    flights = cast.add_topic("flights", 2, [(3, 2)])
    PartitionProgress.objects.update(size_bytes=2_000_000_000)
    moved = cast.move(flights, 1, (1, 2), plan_id=made.id, plan_step=1)
    grew = cast.ago(minutes=6)
    said = {"at": timezone.now(), "grew_at": grew, "recent_at": grew, "recent_bytes": 700_000_000}
    Arrival.objects.create(move_id=moved.id, broker_id=1, held_bytes=700_000_000, **said)
    return made


def test_a_move_that_stands_still_while_all_live_is_told_with_what_may_be_done(operator: Client) -> None:
    """Its step and its rate said since when, and nothing said because of what."""
    page = text(operator, f"/plans/{a_plan_of_which_nothing_comes().id}/")
    assert "The move of flights-1 stands still" in page and "Nothing comes from broker 3 to broker 1" in page


def test_it_is_told_of_no_other_plan(operator: Client) -> None:
    a_plan_of_which_nothing_comes()
    other = add_plan("Running", started_at=cast.ago(minutes=2))
    assert "stands still" not in text(operator, f"/plans/{other.id}/")


def test_the_average_is_told_with_its_number_where_nothing_comes_now(operator: Client) -> None:
    """`nothing since 22:41:17`, and below it: `on average`."""
    page = text(operator, f"/plans/{a_plan_of_which_nothing_comes().id}/")
    assert "MB/s on average; at most 50.0 MB/s a broker" in page


@pytest.mark.parametrize(("phase", "words"), [("Draft", "is to take it back"), ("Done", "took it back")])
def test_a_plan_and_the_one_that_takes_it_back_lead_to_each_other(
    operator: Client, phase: str, words: str
) -> None:
    """A plan that was undone stood there as done, and `Undo a plan` did not say which."""
    made = add_plan("Done")
    options = {"kind": "undo", "undoes": str(made.id)}
    values = {"at_a_time": 5, "version": 9, "proposed_version": 9}
    undo = Plan.objects.create(kind="undo", options=options, phase=phase, **values)
    assert f"Another plan {words}" in text(operator, f"/plans/{made.id}/")
    page = operator.get(f"/plans/{undo.id}/")
    assert f'It takes back <a href="/plans/{made.id}/">Drain broker 3</a>' in page.content.decode()
    Plan.objects.filter(id=undo.id).update(phase="Cancelled")
    assert "Another plan" not in text(operator, f"/plans/{made.id}/")
