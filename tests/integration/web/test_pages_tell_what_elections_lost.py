"""What an unclean election lost is on pages of topics, partitions and the overview until somebody saw it."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.grants import Role
from access.service import create_user
from controller import loss_page, losses
from controller.models import Broker, ElectionLoss, Partition, Topic
from groups import standing
from runtime.models import WorkItem
from tests.integration.web import cast
from tests.integration.web.test_pages_tell_how_brokers_are import shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(db: None) -> Topic:
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    return cast.add_topic("orders", 2, [(1, 2, 3)], high_watermark=1_000)


@pytest.fixture
def operator(orders: Topic, client: Client) -> Client:
    """A browser with the session of an operator."""
    client.force_login(create_user("olga", Role.OPERATOR, None))
    return client


def lose(orders: Topic, partition: int = 0, **told: object) -> ElectionLoss:
    """Broker 2 was elected uncleanly where broker 1 had been alone in sync."""
    facts: dict[str, object] = {
        "topic_id": orders.topic_id,
        "topic_name": orders.name,
        "partition": partition,
        "leader_epoch": 7,
        "leader": 2,
        "isr": [1],
        "reason": "unclean election asked for by olga",
        "committed": 1_000,
        "committed_at": timezone.now() - timedelta(minutes=2),
        "version": 30,
    }
    return ElectionLoss.objects.create(**facts | told)


PLACES = ("/topics/orders/", "/topics/orders/0/", "/losses/")


def test_before_anybody_has_told_it_says_so(operator: Client, orders: Topic) -> None:
    lose(orders)
    for address in PLACES:
        page = shown(operator, address)
        assert "broker 2 has not told yet; committed were 1 000 or more" in page, address
        assert "broker 1 has not told: not back yet" in page
    overview = shown(operator, "/")
    assert "An election of orders-0 may have lost records" in overview
    assert "How many nobody has told yet" in overview
    assert "Broker 1 held everything: copy the folder before you start it" in overview


def test_what_the_new_leader_tells_is_the_loss(operator: Client, orders: Topic) -> None:
    lose(orders, start_offset=940, told_at=timezone.now())
    for address in PLACES:
        page = shown(operator, address)
        assert "at least 60 lost: broker 2 began at 940, committed were 1 000" in page, address
    overview = shown(operator, "/")
    assert "An election of orders-0 lost committed records" in overview
    assert "At least 60 committed records are gone" in overview
    assert "An election of orders-0 lost committed records" in shown(operator, "/topics/orders/")


def test_what_the_old_leader_was_cut_of_is_told_and_corrects_what_was_said_before(
    operator: Client, orders: Topic
) -> None:
    lose(orders, start_offset=940, told_at=timezone.now(), cuts=[[1, 1_015, 940, 1_010, 7_500]])
    page = shown(operator, "/losses/")
    assert "at least 70 lost: broker 2 began at 940, committed were 1 010" in page
    assert "broker 1: 75 records, 940 to 1 015," in page
    assert "not back yet" not in page


def test_a_leader_that_ended_in_records_of_its_own_lost_what_was_committed_in_their_place(
    operator: Client, orders: Topic
) -> None:
    lose(orders, start_offset=1_020, told_at=timezone.now(), cuts=[[1, 1_015, 940, 1_010, 7_500]])
    page = shown(operator, "/losses/")
    assert "at least 70 lost: broker 2 had others from 940 on, committed were 1 010" in page


def test_what_the_new_leader_deleted_before_is_not_told_as_nothing(operator: Client, orders: Topic) -> None:
    lose(orders, start_offset=940, told_at=timezone.now(), cuts=[[1, 1_015, -1, 1_010, -1]])
    page = shown(operator, "/losses/")
    assert "at least 70 lost: broker 2 began at 940, committed were 1 010" in page
    assert "broker 1: it held 1 015; what of that is lost it cannot tell" in page


def test_a_log_that_could_not_be_read_and_went_is_waited_for_no_longer(
    operator: Client, orders: Topic
) -> None:
    lose(orders, start_offset=940, told_at=timezone.now(), cuts=[[1, -1, -1, -1, -1]])
    page = shown(operator, "/losses/")
    assert "at least 60 lost: broker 2 began at 940, committed were 1 000" in page
    assert "broker 1: nobody can tell, its log could not be read before it went" in page
    assert "not back yet" not in page


def test_a_leader_that_does_not_know_says_so(operator: Client, orders: Topic) -> None:
    lose(orders, told_at=timezone.now())
    page = shown(operator, "/losses/")
    assert "nobody can tell: broker 2 does not know any more where it began" in page


def test_where_nobody_ever_said_what_was_committed_nothing_is_made_up(
    operator: Client, orders: Topic
) -> None:
    lose(orders, start_offset=940, told_at=timezone.now(), committed=None, committed_at=None)
    page = shown(operator, "/losses/")
    assert "broker 2 began at 940; nobody has said how far was committed" in page
    assert "lost committed records" not in shown(operator, "/")


def test_once_acknowledged_it_is_no_finding_and_stays_on_its_pages(operator: Client, orders: Topic) -> None:
    lose(
        orders,
        start_offset=940,
        told_at=timezone.now(),
        acknowledged_at=timezone.now(),
        acknowledged_by="olga",
        acknowledged_why="replayed",
    )
    assert "lost committed records" not in shown(operator, "/")
    for address in PLACES:
        page = shown(operator, address)
        assert "olga" in page and "replayed" in page, address
    assert "None matches" in shown(operator, "/losses/?state=open")


def test_of_a_deleted_topic_it_is_history(operator: Client, orders: Topic) -> None:
    lose(orders, closed=True)
    orders.partitions.all().delete()
    orders.delete()
    page = shown(operator, "/losses/")
    assert "its partition is deleted" in page
    assert "/topics/orders/0/" not in operator.get("/losses/").content.decode()
    assert "may have lost records" not in shown(operator, "/")


def test_an_operator_acknowledges_with_a_reason_and_the_controller_is_asked(
    operator: Client, orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.asking.WAIT_S", 0.1)
    loss = lose(orders, start_offset=940, told_at=timezone.now())
    address = f"/cluster/ask/acknowledge-loss/loss/{loss.id}/"
    assert address in operator.get("/losses/").content.decode()
    page = shown(operator, address)
    assert "At least 60 committed records are lost" in page
    assert "Broker 1 held everything and is not back" in page
    stated = {"go": "yes", "reason": "replayed", "version": "30", "key": "k"}
    assert operator.post(address, stated).status_code == 302
    [asked] = WorkItem.objects.values_list("payload", flat=True)
    assert asked["wish"]["type"] == "AcknowledgeLosses"
    [named] = asked["wish"]["losses"]
    assert (named["leader_epoch"], named["expected_version"]) == (7, 30)


def test_viewers_see_it_and_acknowledge_nothing(operator: Client, orders: Topic) -> None:
    loss = lose(orders)
    operator.force_login(create_user("vera", Role.VIEWER, None))
    assert "nobody yet" in shown(operator, "/losses/")
    assert operator.get(f"/cluster/ask/acknowledge-loss/loss/{loss.id}/").status_code == 403
    assert operator.get("/cluster/ask/acknowledge-loss/loss/99999/").status_code == 403


def test_a_long_list_is_paged_newest_first(operator: Client, orders: Topic) -> None:
    for epoch in range(60):
        lose(orders, leader_epoch=epoch)
    page = operator.get("/losses/").content.decode()
    assert page.count('<th scope="row"') == 50 and "leader epoch 59" in page
    address = page.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    following = operator.get(f"/losses/{address}").content.decode()
    assert following.count('<th scope="row"') == 10 and "leader epoch 0<" in following
    assert operator.get("/losses/?after=nonsense").status_code == 400


def test_all_that_is_open_is_acknowledged_by_one_form(operator: Client, orders: Topic) -> None:
    """A crash may leave hundreds; each had a form of its own."""
    lose(orders, start_offset=940, told_at=timezone.now())
    assert "Acknowledge all" not in shown(operator, "/losses/"), "of one its own form does"
    lose(orders, partition=1, version=31)
    assert "Acknowledge all 2" in shown(operator, "/losses/")
    address = "/cluster/ask/acknowledge-losses/"
    page = shown(operator, address)
    assert "2 elections are no finding any more" in page and "At least 60 committed records are lost" in page
    assert "How much 1 of them lost nobody has told" in page and "Broker 1 held everything" in page
    ElectionLoss.objects.filter(partition=1).update(version=32)
    operator.post(address, {"version": "31", "go": "yes", "reason": "sent again", "key": "k" * 32})
    [asked] = WorkItem.objects.all()
    assert [one["partition"] for one in asked.payload["wish"]["losses"]] == [0], "what was told since stays"
    ElectionLoss.objects.update(acknowledged_at=timezone.now())
    refused = operator.get(address)
    assert refused.status_code == 400 and b"Nothing that this form has shown is open" in refused.content


def test_whoever_is_told_to_start_a_broker_is_told_to_copy_first_what_is_cut_there(
    operator: Client, orders: Topic
) -> None:
    """One finding said to start it, the other to copy its folder before."""
    Broker.objects.filter(broker_id=1).update(fenced=True, changed_at=timezone.now())
    assert "Start the broker process again" in shown(operator, "/brokers/1/")
    lose(orders, start_offset=940, told_at=timezone.now())
    for address in ("/", "/brokers/1/"):
        page = shown(operator, address)
        assert "Copy the folder of broker 1 first" in page and "Start the broker process again" not in page


def test_of_an_offline_partition_only_those_are_to_be_brought_back_who_were_in_sync(
    operator: Client, orders: Topic
) -> None:
    Broker.objects.filter(broker_id__in=(1, 2, 3)).update(fenced=True, changed_at=timezone.now())
    Partition.objects.update(leader=-1, isr=[3], changed_at=timezone.now())
    page = shown(operator, "/")
    assert "Bring broker 3 back: nothing is lost" in page and "Bring these brokers back" not in page
    assert "ISR broker 3 at least" in shown(operator, "/topics/orders/0/")


def test_an_unclean_election_leads_on_to_what_it_lost(operator: Client, orders: Topic) -> None:
    """It said Done, and led to all reassignments."""
    of = {"kind": "controller.request", "lane": "controller", "key": "cluster", "state": "adopted"}
    wish = {"type": "ElectLeaders", "correlation_id": 0, "partitions": [["orders", 0]], "unclean": True}
    answer = {
        "type": "ElectionResults",
        "correlation_id": 0,
        "results": [{"topic": "orders", "partition": 0, "error": 0}],
    }
    row = WorkItem.objects.create(**of, payload={"wish": wish}, result=answer)
    page = operator.get(f"/cluster/requests/{row.id}/").content.decode()
    assert (
        '<a class="btn" href="/losses/">What elections lost</a>' in page and "All reassignments" not in page
    )


def test_whoever_holds_what_one_of_many_elections_lost_is_named(operator: Client, orders: Topic) -> None:
    """Of the newest two hundred alone it was said: who was lost in an older one was just to be started."""
    Broker.objects.filter(broker_id=1).update(fenced=True, changed_at=timezone.now())
    lose(orders)
    for epoch in range(200):
        lose(orders, partition=1, leader_epoch=100 + epoch, isr=[3])
    page = shown(operator, "/")
    assert "Copy the folder of broker 1 first" in page
    assert "Brokers 1, 3 held everything: copy the folder before you start it" in page


def test_who_has_told_what_was_cut_there_is_not_waited_for(operator: Client, orders: Topic) -> None:
    """Statement and row agree about who is: as told by it, as the new leader, as of a deleted partition."""
    lose(orders, isr=[1, 3], cuts=[[1, 1_000, 940, 1_000, 5_000]])
    lose(orders, partition=1, leader=2, isr=[2])
    lose(orders, partition=1, leader_epoch=8, isr=[4], closed=True)
    lose(orders, partition=1, leader_epoch=9, leader=2, isr=[2], told_at=timezone.now())
    by_row = {broker for one in losses.unacknowledged(9).rows for broker in one.waits_for}
    assert losses.waited_for() == sorted(by_row) == [2, 3]
    assert losses.waited_for(uuid4()) == []


def test_no_form_acknowledges_what_it_has_not_shown(
    operator: Client, orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More were open than one request names: when some of these were closed, others came in their place."""
    monkeypatch.setattr(loss_page, "LOSSES_MAX", 2)
    for number in range(5):
        lose(orders, partition=number % 2, leader_epoch=10 + number, version=30 + number)
    assert "Acknowledge the first 2 of 5" in shown(operator, "/losses/")
    address = "/cluster/ask/acknowledge-losses/"
    page = shown(operator, address)
    assert "2 elections are no finding any more" in page and "3 others stay some, too" in page
    version = re.search(r'name="version" value="(\d+)"', operator.get(address).content.decode())
    assert version is not None
    said = {"version": version[1], "go": "yes", "reason": "sent again"}
    operator.post(address, {**said, "key": "k" * 32})
    [asked] = WorkItem.objects.all()
    named = [one["leader_epoch"] for one in asked.payload["wish"]["losses"]]
    ElectionLoss.objects.filter(leader_epoch__in=named).update(acknowledged_at=timezone.now())
    late = operator.post(address, {**said, "key": "l" * 32})
    assert b"Nothing that this form has shown is open" in late.content and WorkItem.objects.count() == 1


def test_who_holds_what_was_lost_is_read_once_and_only_where_anything_is_open(
    operator: Client, orders: Topic
) -> None:
    """A fenced broker and an open loss both tell of it, and each asked for itself."""
    Broker.objects.filter(broker_id=1).update(fenced=True)

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            shown(operator, "/")
        return sum("FROM election_loss AS loss" in one["sql"] for one in queries)

    assert asked() == 0
    lose(orders)
    standing.forget()
    assert asked() == 1
    assert "Copy the folder of broker 1 first" in shown(operator, "/")
