"""The command line says of a plan what its page does: which moves cannot finish, and why."""

from controller.models import Partition
from tests.integration.cli.conftest import Muster
from tests.integration.rest.test_a_plan_tells_what_cannot_finish import a_plan_that_stalls
from tests.integration.web import cast


def test_it_says_since_when_and_because_of_whom(viewer: Muster) -> None:
    since = cast.ago(minutes=8)
    plan, at = a_plan_that_stalls(since).id, f"{since:%Y-%m-%d %H:%M:%SZ}"
    shown = viewer.done("plans", "show", plan).out
    assert f"1 move cannot finish since {at}: broker 3 fenced. Start who is fenced" in shown
    assert "1 of 3" in shown and "1 cannot finish" in shown
    steps = viewer.done("plans", "steps", plan).out
    assert f"stands still since {at}: broker 3 fenced" in steps
    Partition.objects.filter(topic__name="flights", partition=1).update(leader=-1)
    assert "broker 3 fenced, 1 without a leader to copy from" in viewer.done("plans", "show", plan).out
    assert "broker 3 fenced, no leader to copy from" in viewer.done("plans", "steps", plan).out
