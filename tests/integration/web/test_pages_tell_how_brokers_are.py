"""Disks, logs in trouble, clients that wait: on pages of brokers, topics, partitions and the overview."""

import re

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from controller.models import Broker, ClientQuota, Partition, PartitionProgress
from groups import standing
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(db: None, client: Client) -> Client:
    """A browser with the session of an operator, and two topics on three live brokers."""
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
        cast.say(broker, 38 * cast.GIGABYTE)
    client.force_login(create_user("olga", Role.OPERATOR, None))
    return client


def shown(client: Client, address: str) -> str:
    """The words of a page."""
    standing.forget()
    return text(client, address)


def test_a_disk_with_room_is_told_without_alarm(operator: Client) -> None:
    cast.add_topic("orders", 3, [(1, 2, 3)])
    assert "38.0 GB" in shown(operator, "/brokers/")
    page = shown(operator, "/brokers/2/")
    assert "Disk, free 38.0 GB of 480 GB, keeps 1.0 GB back" in page
    assert "Nothing needs attention" in shown(operator, "/")


def test_a_full_disk_is_a_finding_and_lights_the_board(operator: Client) -> None:
    cast.add_topic("orders", 3, [(1, 2, 3)])
    cast.say(2, 200_000_000)
    for address in ("/", "/brokers/2/", "/cluster/"):
        page = shown(operator, address)
        assert "Broker 2 takes no records" in page, address
        assert "has 200 MB left of 480 GB and keeps 1.0 GB back" in page
        assert "1 disk full" in page
    # Where the column of disks has no room, the state says it.
    assert "Live, disk full Broker 2" in shown(operator, "/brokers/")
    Broker.objects.filter(broker_id=2).update(fenced=True)
    page = shown(operator, "/brokers/2/")
    assert "takes no records" not in page, "who is away takes none for another reason"
    assert "as of" in page
    for address in ("/", "/cluster/", "/brokers/"):
        assert "200 MB" not in shown(operator, address), "what it said then is no more said of now"


def test_a_log_that_is_offline_is_told_where_the_partition_is_told(operator: Client) -> None:
    orders = cast.add_topic("orders", 3, [(1, 2, 3)], out=[2])
    cast.note_log(2, orders, 1, "offline", "[Errno 5] Input/output error")
    for address in ("/", "/brokers/2/", "/topics/orders/", "/topics/orders/1/"):
        page = shown(operator, address)
        assert "Input/output error" in page, address
        assert "1 log bad" in page
    assert "log of broker 2 offline" in shown(operator, "/topics/orders/")
    assert 'data-s="X">log offline' in operator.get("/cluster/?show=all").content.decode()
    assert "log of broker 2 offline" not in shown(operator, "/topics/orders/0/")
    Broker.objects.filter(broker_id=2).update(fenced=True)
    assert "Input/output error" not in shown(operator, "/topics/orders/"), "that broker is away as a whole"


def test_what_was_damaged_and_copied_again_alarms_nobody(operator: Client) -> None:
    orders = cast.add_topic("orders", 3, [(1, 2, 3)])
    cast.note_log(2, orders, 1, "mended", "the batch at offset 812 is damaged")
    assert "Nothing needs attention" in shown(operator, "/")
    page = shown(operator, "/brokers/2/")
    assert "was damaged, copied again" in page and "the batch at offset 812 is damaged" in page


def test_who_leads_a_damaged_log_is_told_to_have_lost_records(operator: Client) -> None:
    orders = cast.add_topic("orders", 3, [(1, 2, 3)])
    cast.note_log(1, orders, 0, "damaged", "the batch at offset 812 is damaged")
    page = shown(operator, "/")
    assert "The log of orders-0 is damaged on broker 1" in page
    assert "those records are lost" in page


def test_a_dozen_fenced_brokers_are_one_finding(operator: Client) -> None:
    for broker in range(4, 16):
        cast.add_broker(broker, fenced=True)
    page = shown(operator, "/")
    assert "12 brokers are fenced" in page and "Broker 4 is fenced" not in page
    assert "Broker 15 is fenced" in shown(operator, "/brokers/15/")
    assert (
        "fenced" not in shown(operator, "/brokers/1/").partition("What it holds")[0].partition("Journal")[2]
    )


def test_who_is_made_to_wait_is_named_with_its_quota(operator: Client) -> None:
    cast.say(2, 38 * cast.GIGABYTE, throttled=[cast.waits("till-7", user="olga")], throttled_more=3)
    for address in ("/brokers/2/", "/quotas/"):
        page = shown(operator, address)
        assert "olga till-7" in page, address
        assert "produce 10.0 MB 0.81s 96" in page
        assert "And 3 more." in page
    assert "Nobody is throttled here now" in shown(operator, "/brokers/1/")
    # One client is one, at however many brokers it waits.
    cast.say(3, 38 * cast.GIGABYTE, throttled=[cast.waits("till-7", user="olga")])
    assert shown(operator, "/quotas/").startswith(" 1 client waits")


def test_quotas_are_listed_and_found(operator: Client) -> None:
    assert "No quota is set" in shown(operator, "/quotas/")
    ClientQuota.objects.create(user_name="", client_id=None, producer_byte_rate=5_000_000, version=7)
    ClientQuota.objects.create(user_name="olga", client_id="till", consumer_byte_rate=1_500_000, version=8)
    page = shown(operator, "/quotas/")
    assert "2 quotas" in page
    assert "each any 5.0 MB no bound" in page and "olga till no bound 1.5 MB" in page
    found = shown(operator, "/quotas/?q=OLG")
    assert "1 quota" in found and "no bound 1.5" in found
    assert "No quota matches" in shown(operator, "/quotas/?q=nobody")
    create_user("vera", Role.VIEWER, None)
    operator.force_login(create_user("vera", Role.VIEWER, None))
    assert "/cluster/ask/" not in operator.get("/quotas/").content.decode()


def test_an_unclean_election_says_before_how_much_is_lost(operator: Client) -> None:
    orders = cast.add_topic("orders", 1, [(1, 2, 3)], high_watermark=1_000)
    Partition.objects.update(leader=-1, isr=[1])
    Broker.objects.filter(broker_id=1).update(fenced=True)
    address = "/cluster/ask/elect-any-live/partition/orders/0/"
    unknown = shown(operator, address)
    assert "How many committed records are lost nobody can tell" in unknown
    cast.note_log(2, orders, 0, "leaderless", end_offset=940)
    cast.note_log(3, orders, 0, "leaderless", end_offset=1_000)
    page = shown(operator, address)
    assert "Broker 2 leads, alone in sync" in page
    assert "At least 60 committed records are lost" in page
    assert "Broker 1 held everything. Bring it back instead" in page
    assert re.search(r"Broker 2 no 940 60", page) and "Broker 3 no 1 000 0" in page
    assert "Type orders-0" in page
    assert "What its replicas hold while nobody leads" in shown(operator, "/topics/orders/0/")
    refused = operator.post(address, {"go": "yes", "reason": "no way back", "confirm": "orders", "key": "k"})
    assert refused.status_code == 400 and b"type orders-0 as it is" in refused.content
    PartitionProgress.objects.all().delete()
    assert "nobody said how far it was committed" in shown(operator, address)


def test_where_logs_are_to_be_shown_no_form_names_who_leads_or_held_everything(operator: Client) -> None:
    orders = cast.add_topic("orders", 1, [(1, 2, 3)], high_watermark=1_000)
    Partition.objects.update(leader=-1, isr=[1], unproven=1)
    Broker.objects.filter(broker_id=3).update(fenced=True)
    cast.note_log(1, orders, 0, "leaderless", end_offset=940)
    page = shown(operator, "/cluster/ask/elect-any-live/partition/orders/0/")
    assert "the one whose log goes furthest leads" in page
    assert "How many committed records are lost nobody can tell" in page
    assert "Broker 3 cannot show its log. Bring it back instead" in page
    assert "alone in sync" not in page and "held everything" not in page
    assert "Nothing would change." in shown(operator, "/cluster/ask/elect-preferred/")
    page = shown(operator, "/cluster/ask/elect-leader/partition/orders/0/")
    assert "not all replicas have shown their logs: this will be refused" in page


def test_where_somebody_leads_no_unclean_election_is_offered(operator: Client) -> None:
    cast.add_topic("orders", 1, [(1, 2, 3)])
    assert "elect-any-live" not in operator.get("/topics/orders/0/").content.decode()
    page = shown(operator, "/cluster/ask/elect-any-live/partition/orders/0/")
    assert "Broker 1 leads: nothing would change" in page
