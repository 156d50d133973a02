"""The pages of plans: what waits for review, what it costs, how far it is, what may be done about it."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.grants import Role
from access.service import create_user
from controller import copying, move_queries, plan_progress
from controller.models import PLAN_PHASES, Broker, Plan, PlanStep, Reassignment, Topic
from runtime.models import WorkItem
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db

COST = {
    "partitions": 3,
    "bytes": 6_000_000_000,
    "replicas_added": 3,
    "leaders_moved": 1,
    "unknown_sizes": 0,
    "busiest_bytes": 6_000_000_000,
    "busiest_broker": 1,
    "hours": 0.033,
    "brokers": [[1, 2, 2, 1, 1, 0, 6_000_000_000], [3, 3, 0, 1, 0, 0, 0]],
    "left_out": [{"why": "another reassignment moves it", "number": 1, "names": ["flights-9"]}],
}


def add_plan(phase: str = "Draft", **more: Any) -> Plan:
    """A drain of broker 3 in three steps, of which one is done."""
    made = Plan.objects.create(
        kind="drain",
        options={"kind": "drain", "brokers": [3]},
        phase=phase,
        throttle=50_000_000,
        at_a_time=500,
        step_count=3,
        cost=COST,
        proposed_by="mira",
        reason="broker 3 is to be replaced",
        version=7,
        proposed_version=5,
        **more,
    )
    for number, state in enumerate(("Done", "Asked", "Waiting")):
        PlanStep.objects.create(
            plan=made,
            number=number,
            topic_id=uuid4(),
            topic_name="flights",
            partition=number,
            reviewed_version=4,
            origin=[3, 2],
            target=[1, 2],
            size_bytes=2_000_000_000,
            state=state,
        )
    return made


def refused(plan: Plan) -> WorkItem:
    """Somebody asked that it be paused, and somebody else had changed it meanwhile."""
    wish = {"type": "PausePlan", "plan_id": str(plan.id), "expected_version": 6}
    answer = {
        "type": "PlanAnswer",
        "plan_id": str(plan.id),
        "error": 95,
        "text": "The plan is of version 7 now.",
    }
    of = {"kind": "controller.request", "lane": "controller", "key": "cluster", "principal": "mira"}
    return WorkItem.objects.create(**of, payload={"wish": wish}, result=answer, state="adopted")


def test_a_draft_says_what_it_takes(operator: Client) -> None:
    made = add_plan()
    page = text(operator, f"/plans/{made.id}/")
    assert "Drain broker 3" in page and "to be reviewed" in page
    assert "6.0 GB" in page and "50.0 MB/s" in page
    assert "2m 0s at least, for the busiest broker, 1" in page
    assert "Left out: 1" in page and "another reassignment moves it: flights-9" in page
    assert "Drain broker 3" in text(operator, "/reassignments/")


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1 partition is of unknown size"), (2, "2 partitions are of unknown size")]
)
def test_it_says_of_how_many_partitions_nobody_knows_the_size(
    operator: Client, number: int, said: str
) -> None:
    """It said that so many of the new replicas are, of which a partition may get several."""
    made = add_plan()
    made.cost = {**COST, "unknown_sizes": number}
    made.save()
    assert f"in 3 new replicas; {said}" in text(operator, f"/plans/{made.id}/")


@pytest.mark.parametrize("phase", PLAN_PHASES)
def test_only_what_its_phase_allows_is_offered_and_viewers_are_offered_nothing(
    operator: Client, client: Client, phase: str
) -> None:
    made = add_plan(phase)
    offered = re.findall(r"/cluster/ask/plan-(\w+)/", operator.get(f"/plans/{made.id}/").content.decode())
    allowed = {
        "Computing": ["cancel"],
        "Draft": ["approve", "throttle", "cancel"],
        "Approved": ["run", "throttle", "cancel"],
        "Running": ["pause", "throttle", "cancel"],
        "Paused": ["run", "throttle", "cancel"],
        "Done": ["undo"],
        "Cancelled": ["undo"],
        "Failed": [],
    }
    assert offered == allowed[phase]
    for kind in offered:
        page = operator.get(f"/cluster/ask/plan-{kind}/plan/{made.id}/")
        assert page.status_code == 200 and b">Drain broker 3</a>" in page.content, kind
    client.force_login(create_user("vera", Role.VIEWER, None))
    shown = client.get(f"/plans/{made.id}/")
    assert shown.status_code == 200 and b"/cluster/ask/" not in shown.content
    assert client.get(f"/cluster/ask/plan-cancel/plan/{made.id}/").status_code == 403


def test_progress_is_what_was_copied_since_it_began(operator: Client) -> None:
    now = timezone.now()
    made = add_plan("Running", started_at=now - timedelta(seconds=100))
    row = move_queries.plan(made.id)
    assert row is not None
    counts = move_queries.step_counts(row)
    half = copying.Copying(replicas=1, to_copy=2_000_000_000, copied=1_000_000_000, rate=50_000_000.0)
    told = plan_progress.progress_of(row, counts, half, now)
    assert (told.over, told.of, told.copied, told.to_copy) == (1, 3, 3_000_000_000, 6_000_000_000)
    assert (told.percent, told.rate, told.average) == (50, 50_000_000, 30_000_000)
    assert told.ends_at == now + timedelta(seconds=60)
    silent = plan_progress.progress_of(row, counts, copying.Copying(replicas=1, silent=1), now)
    assert (silent.rate, silent.ends_at) == (None, None), "nobody said how much is still to come"
    still = copying.Copying(replicas=1, to_copy=9, copied=1, rate=0.0, grew_at=now)
    stopped = plan_progress.progress_of(row, counts, still, now)
    assert (stopped.stalled_since, stopped.ends_at) == (now, None)
    begun = copying.Copying(
        replicas=1, to_copy=9, copied=1, rate=0.0, grew_at=now, said_at=now + timedelta(seconds=1)
    )
    assert begun.stalled_since is None, "it has just begun"
    page = text(operator, f"/plans/{made.id}/")
    assert "1 of 3 partitions, 1 under way" in page and "2.0 GB of 4.0 GB" in page


def test_a_throttle_may_be_less_than_a_megabyte_a_second(operator: Client) -> None:
    address = f"/cluster/ask/plan-throttle/plan/{add_plan().id}/"
    said = {"throttle": "0,25", "version": "7", "reason": "payday"}
    assert "250\u202fkB/s" in operator.post(address, said).content.decode()
    for odd in ("fast", "1,000"):
        refused = operator.post(address, said | {"throttle": odd})
        text = f"Throttle: &#x27;{odd}&#x27; is no number of megabytes like 10 or 0.5."
        assert refused.status_code == 400 and text in refused.content.decode()


def test_what_moved_in_a_plans_time_is_found_by_an_index(operator: Client) -> None:
    """The moves of three steps were looked for among all that ever moved, at each look of the page."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO reassignment (id, topic_id, topic_name, partition, origin, target, phase,
                   principal, reason, plan_step, asked_version, asked_place, version)
               SELECT gen_random_uuid(), gen_random_uuid(), 'clicks', 0, '{1}', '{2}', 'Done',
                   '', '', 0, n, 0, n FROM generate_series(1, 20000) AS n"""
        )
        cursor.execute("ANALYZE reassignment")
        for phase, begins in (("Draft", None), ("Running", 19_990), ("Done", 5)):
            made = add_plan(phase, started_at=timezone.now() if begins else None)
            Plan.objects.filter(id=made.id).update(proposed_version=begins or 5)
            row = move_queries.plan(made.id)
            assert row is not None
            with CaptureQueriesContext(connection) as asked:
                move_queries.step_counts(row)
            cursor.execute(f"EXPLAIN {asked[0]['sql']}")
            told = "\n".join(row[0] for row in cursor.fetchall())
            assert "reassignment_by_turn" in told and "Seq Scan on reassignment" not in told, (phase, told)


def test_what_was_copied_is_what_the_moves_did_and_not_what_was_reviewed(operator: Client) -> None:
    """Producers write meanwhile: a plan of 6 GB said, when it was done, that it had copied 6 of 6 GB."""
    made = add_plan("Done", started_at=timezone.now() - timedelta(seconds=100), ended_at=timezone.now())
    PlanStep.objects.filter(plan=made).update(state="Done")
    move = {
        "topic_name": "flights",
        "origin": [3, 2],
        "target": [1, 2],
        "asked_version": 6,
        "asked_place": 0,
        "version": 7,
    }
    for number, (phase, copied) in enumerate((("Done", 5_000_000_000), ("Cancelled", 77), ("Done", None))):
        Reassignment.objects.create(
            topic_id=uuid4(),
            partition=number,
            plan_id=made.id,
            plan_step=number,
            phase=phase,
            copied_bytes=copied,
            **move,
        )
    row = move_queries.plan(made.id)
    assert row is not None
    counts = move_queries.step_counts(row)
    assert (counts.bytes_done, counts.bytes) == (9_000_000_000, 9_000_000_000), "of two nobody said"
    page = text(operator, f"/plans/{made.id}/")
    assert "9.0 GB of 9.0 GB" in page and "90.0 MB/s on average" in page


def test_steps_are_filtered_and_paged(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = add_plan("Running")
    page = text(operator, f"/plans/{made.id}/?state=Waiting").partition("Partition")[2]
    assert "flights-2" in page and "flights-0" not in page
    assert "No step is failed" in text(operator, f"/plans/{made.id}/?state=Failed")
    monkeypatch.setattr("controller.plan_page.STEPS_OF_A_PAGE", 2)
    assert "from=2" in operator.get(f"/plans/{made.id}/").content.decode()
    assert "flights-2" in text(operator, f"/plans/{made.id}/?from=2")
    assert operator.get(f"/plans/{made.id}/?state=odd").status_code == 400


def test_plans_are_listed_and_filtered(operator: Client) -> None:
    assert "No plans yet" in text(operator, "/plans/")
    assert "No plan waits or runs" in text(operator, "/reassignments/")
    add_plan("Done")
    assert "Drain broker 3" in text(operator, "/plans/")
    assert "No plan is in this phase" in text(operator, "/plans/?phase=Draft")
    assert operator.get("/plans/?phase=odd").status_code == 400
    assert operator.get(f"/plans/{UUID(int=1)}/").status_code == 404


def test_a_cancellation_says_what_goes_back_only_if_it_is_to(operator: Client) -> None:
    made = add_plan("Running")
    address = f"/cluster/ask/plan-cancel/plan/{made.id}/"
    assert "under way goes on to the end" in operator.post(address, {"version": "7"}).content.decode()
    back = operator.post(address, {"version": "7", "moves": "yes"}).content.decode()
    assert "goes back to where it was" in back


@pytest.mark.parametrize("kind", ["plan-approve", "plan-run", "plan-pause", "plan-throttle", "plan-cancel"])
def test_what_a_plan_that_is_over_refuses_is_said_before(operator: Client, kind: str) -> None:
    """The form told of 0 partitions that would move, and only who sent it heard of the refusal."""
    address = f"/cluster/ask/{kind}/plan/{add_plan('Done').id}/"
    page = operator.post(address, {"version": "7"}).content.decode()
    assert "The plan is done already: this will be refused." in page and "never begin" not in page


def test_a_proposal_that_cannot_be_is_said_to_be_so(operator: Client) -> None:
    page = operator.post("/cluster/ask/propose-plan/", {"kind": "drain", "reason": "x", "go": "yes"})
    assert page.status_code == 400 and "Brokers: It is needed." in page.content.decode()
    assert 'value="3"' in operator.get("/cluster/ask/propose-plan/?kind=drain&brokers=3").content.decode()


def test_a_move_that_cannot_finish_is_told_on_the_page_of_its_plan(operator: Client) -> None:
    """Its steps were under way and it was to end at a time, though a broker that it fills was dead."""
    made = add_plan("Running", started_at=timezone.now())
    step = PlanStep.objects.get(plan=made, number=1)
    topic = cast.add_topic("flights", 3, [(3, 2)])
    PlanStep.objects.filter(plan=made).update(topic_id=topic.topic_id)
    cast.move(topic, 1, (1, 2), plan_id=made.id, plan_step=step.number)
    Broker.objects.filter(broker_id=1).update(fenced=True, changed_at=timezone.now())
    page = text(operator, f"/plans/{made.id}/")
    assert "flights-1 cannot finish its move" in page and "Start broker 1" in page
    assert "1 under way, 1 cannot finish" in page and "waits for broker 1, since" in page


def test_what_waits_elsewhere_is_not_told_of_a_plan(operator: Client) -> None:
    """Its page told of 2 moves that cannot finish here and of 1 there, and named a broker of the other."""
    made = add_plan("Running", started_at=timezone.now())
    topic = cast.add_topic("flights", 3, [(3, 2)])
    cast.move(topic, 1, (1, 2), plan_id=made.id, plan_step=1)
    cast.add_broker(4, fenced=True, since=cast.ago(hours=1))
    cast.move(cast.add_topic("orders", 1, [(3, 2)]), 0, (4, 2))
    assert "orders-0 cannot finish its move" in text(operator, "/")
    assert "cannot finish" not in text(operator, f"/plans/{made.id}/")
    Broker.objects.filter(broker_id=1).update(fenced=True, changed_at=timezone.now())
    page = text(operator, f"/plans/{made.id}/")
    assert "flights-1 cannot finish its move" in page and "1 under way, 1 cannot finish" in page
    assert "orders-0" not in page and "Broker 4" not in page


def test_a_drain_says_that_new_replicas_are_placed_there_all_the_same(operator: Client) -> None:
    made = add_plan("Running", started_at=timezone.now())
    page = text(operator, f"/plans/{made.id}/")
    assert "Not cordoned: broker 3. New topics and partitions are placed there while it is live" in page
    Broker.objects.filter(broker_id=3).update(cordoned=True)
    assert "Not cordoned" not in text(operator, f"/plans/{made.id}/")


def test_a_pause_that_changes_nothing_says_so(operator: Client) -> None:
    """All its moves were under way: whoever paused it to spare the cluster spared it nothing."""
    made = add_plan("Running")
    address = f"/cluster/ask/plan-pause/plan/{made.id}/"
    assert "1 move does not begin before somebody lets it go on" in text(operator, address)
    PlanStep.objects.filter(plan=made, state="Waiting").update(state="Asked")
    assert "a pause changes nothing now" in text(operator, address)
    Plan.objects.update(phase="Paused")
    run = text(operator, f"/cluster/ask/plan-run/plan/{made.id}/")
    assert "2 moves are under way already: none is left to begin" in run and "0 partitions move" not in run


def test_a_refusal_leads_to_the_plan_that_is_to_be_looked_at(operator: Client) -> None:
    """It said to look at the plan as it is now, named it by its id, and led to the list of all plans."""
    made = add_plan("Running")
    row = refused(made)
    page = operator.get(f"/cluster/requests/{row.id}/").content.decode()
    assert page.count(f'href="/plans/{made.id}/"') == 2 and "To Drain broker 3" in page
    # One that is over meanwhile is not named in the answer.
    WorkItem.objects.update(result={"type": "PlanAnswer", "error": 95, "text": "It is over."})
    assert "To Drain broker 3" in operator.get(f"/cluster/requests/{row.id}/").content.decode()


def test_a_refusal_says_how_the_plan_is_now(operator: Client) -> None:
    """It named two versions, and nobody learnt from that that somebody else had paused it."""
    made = add_plan("Paused", changed_by="ola", why="a quiet minute")
    page = text(operator, f"/cluster/requests/{refused(made).id}/")
    assert "Now: paused, last changed by ola: a quiet minute" in page
    WorkItem.objects.update(result={"type": "PlanAnswer", "plan_id": str(made.id)})
    assert "Now:" not in text(operator, f"/cluster/requests/{WorkItem.objects.get().id}/")


def test_a_pause_of_a_plan_whose_moves_have_all_begun_is_called_none(operator: Client) -> None:
    """*Go on* promised that the next moves begin; that they go on under way was not said."""
    made = add_plan("Paused", started_at=timezone.now())
    assert "The next moves begin." in text(operator, f"/plans/{made.id}/")
    PlanStep.objects.filter(state="Waiting").update(state="Asked")
    page = text(operator, f"/plans/{made.id}/")
    assert "No move is left to begin: it ends with those under way." in page
    assert "paused; moves under way go on" in page
    Plan.objects.update(phase="Running")
    assert "No move is left to begin: it changes nothing now." in text(operator, f"/plans/{made.id}/")


def test_what_a_cancelled_plan_never_began_does_not_wait(operator: Client) -> None:
    page = text(operator, f"/plans/{add_plan('Cancelled', started_at=timezone.now()).id}/")
    assert "Never began 1" in page and "1 never began" in page and "waiting" not in page.lower()


def test_the_verdict_on_moves_says_since_when_they_cannot_finish(viewer: Client) -> None:
    """It said since when the oldest was asked for, above a finding with another time."""
    cast.one_night(groups=1)
    cast.move(Topic.objects.get(name="orders"), 0, (5, 2, 3))
    head, _, watch = viewer.get("/reassignments/").content.decode().partition('id="watch"')
    times = '<time datetime="([^"]*)"'
    assert "1 move cannot finish" in head
    assert re.findall(times, head)[-1] == re.findall(times, watch)[0]
