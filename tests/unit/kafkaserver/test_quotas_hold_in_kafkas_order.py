"""Client quotas: whose holds is Kafka's order, who shares one, and how long has to be waited."""

import pytest

from kafkaserver.quotas import LONGEST_WAIT_MS, MOST_BUCKETS, STILL_MS, Bucket, ClientQuotas
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.limits import MAX_FRAME_FROM_BROKER_BYTES
from muster.messages.link.condition import MOST_THROTTLED, Condition
from muster.messages.link.from_broker import BrokerPing
from muster.messages.link.quotas import QuotaKey, QuotaRow

START = Instant(1_000_000)
ORDER: list[QuotaKey] = [
    ("ann", "till"),
    ("ann", ""),
    ("ann", None),
    ("", "till"),
    ("", ""),
    ("", None),
    (None, "till"),
    (None, ""),
]
"""Kafka's order of precedence: what stands first holds."""


def quotas(*rows: QuotaRow) -> ClientQuotas:
    known = ClientQuotas()
    known.know(rows)
    return known


def fetching(key: QuotaKey, rate: int) -> QuotaRow:
    return QuotaRow(*key, consumer_byte_rate=rate)


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_of_several_quotas_the_nearest_holds(first: int) -> None:
    rates = {key: 1_000 + place for place, key in enumerate(ORDER)}
    known = quotas(*(fetching(key, rates[key]) for key in ORDER[first:]))
    assert known.room_to_fetch("ann", "till", START) == (0, 1_000 + first)


def test_whoever_no_quota_names_fetches_what_he_likes() -> None:
    known = quotas(fetching(("ann", "till"), 10), fetching(("bob", None), 10), fetching((None, "web"), 10))
    assert known.room_to_fetch("ann", "web2", START) is None
    assert known.room_to_fetch("cleo", "till", START) is None
    assert known.produced("bob", "till", 10**9, START) == 0


def test_a_quota_for_fetching_bounds_no_produce() -> None:
    known = quotas(QuotaRow("ann", None, producer_byte_rate=10))
    assert known.room_to_fetch("ann", "till", START) is None
    assert known.produced("ann", "till", 20, START) > 0


def test_who_speaks_at_an_open_door_is_anonymous() -> None:
    known = quotas(QuotaRow("ANONYMOUS", None, producer_byte_rate=10))
    assert known.produced("", None, 20, START) > 0


def test_a_named_quota_is_shared_and_each_of_a_default_has_its_own() -> None:
    shared = quotas(QuotaRow("ann", None, producer_byte_rate=100))
    assert [shared.produced("ann", client, 60, START) > 0 for client in ("a", "b")] == [False, True]
    alone = quotas(QuotaRow("", None, producer_byte_rate=100))
    assert [alone.produced(user, "a", 60, START) > 0 for user in ("ann", "bob", "ann")] == [
        False,
        False,
        True,
    ]
    by_client = quotas(QuotaRow("ann", "", producer_byte_rate=100))
    assert [by_client.produced("ann", client, 60, START) > 0 for client in ("a", "b")] == [False, False]


def test_over_time_the_rate_is_what_was_set() -> None:
    """A client that waits as it is told sends what its quota allows, and a second's worth more at most."""
    known = quotas(QuotaRow(None, "till", producer_byte_rate=1_000))
    now, sent = START, 0
    while now < START + 60_000:
        sent += 700
        now = Instant(now + 10 + known.produced("ann", "till", 700, now))
    assert 59_000 <= sent <= 61_000 + 700


def test_nobody_waits_for_ever_and_a_raised_quota_is_felt() -> None:
    bucket = Bucket(1, START)
    assert bucket.take(2**40, START) == LONGEST_WAIT_MS
    bucket.change(1_000_000, START)
    assert bucket.wait_ms(Instant(START + 1)) == 0


def test_another_rate_does_not_forgive_what_is_owed() -> None:
    known = quotas(QuotaRow("ann", None, producer_byte_rate=1_000))
    known.produced("ann", "till", 3_000, START)
    known.know([QuotaRow("ann", None, producer_byte_rate=500)])
    assert known.produced("ann", "till", 0, START) == 4_001


def test_a_quota_that_is_gone_leaves_no_debt() -> None:
    known = quotas(QuotaRow("ann", None, producer_byte_rate=1))
    known.produced("ann", "till", 1_000, START)
    known.know([])
    assert known.produced("ann", "till", 1_000, START) == 0
    known.know([QuotaRow("ann", None, producer_byte_rate=1_000)])
    assert known.produced("ann", "till", 1_000, START) == 0


def test_client_ids_of_strangers_fill_no_memory() -> None:
    known = quotas(QuotaRow(None, "", producer_byte_rate=10))
    for number in range(MOST_BUCKETS + 10):
        known.produced("ann", f"client {number}", 20, START)
    assert known.produced("ann", f"client {MOST_BUCKETS + 9}", 0, START) > 0
    assert known.produced("ann", "client 0", 0, START) == 0, "its bucket made room for others"


def test_who_is_made_to_wait_is_named_until_it_is_over() -> None:
    known = quotas(QuotaRow("ann", None, producer_byte_rate=1_000), fetching((None, "web"), 100))
    assert known.waiting(START) == []
    known.produced("ann", "till", 3_000, START)
    known.fetched("bob", "web", 2_000, START)
    later = Instant(START + 1_000)
    wait_ms = known.produced("ann", "web", 100, later)
    web, ann = known.waiting(later)
    assert (web.user, web.client_id, web.quota, web.rate) == (None, "web", "consumer_byte_rate", 100)
    assert (ann.user, ann.client_id, ann.answers, ann.age_ms) == ("ann", None, 2, 1_000)
    over = Instant(later + wait_ms + STILL_MS)
    assert [one.client_id for one in known.waiting(over)] == ["web"]
    known.know([])
    assert known.waiting(over) == []


def test_who_waits_again_after_a_rest_waits_since_then() -> None:
    known = quotas(QuotaRow("ann", None, producer_byte_rate=1_000))
    wait_ms = known.produced("ann", "till", 2_000, START)
    again = Instant(START + wait_ms + STILL_MS)
    known.produced("ann", "till", 3_000, again)
    (ann,) = known.waiting(Instant(again + 10))
    assert (ann.answers, ann.age_ms) == (1, 10)


def test_a_ping_has_room_for_all_who_wait_whatever_they_call_themselves() -> None:
    """A client id has 32,767 bytes, six times as many where JSON escapes them: eleven ended the link."""
    known = quotas(QuotaRow(None, "", producer_byte_rate=1))
    for place in range(MOST_THROTTLED):
        known.produced("ann", f"{place}\x00" + "\x01" * 32_700, 100, START)
    waiting = known.waiting(Instant(START + 1))
    assert len(waiting) == MOST_THROTTLED
    assert waiting[0].client_id == "0" + "\N{REPLACEMENT CHARACTER}" * 247 + "…"
    ping = BrokerPing(number=1, metadata_version=1, condition=Condition(throttled=tuple(waiting)))
    assert len(codec.encode(ping)) < MAX_FRAME_FROM_BROKER_BYTES / 10


def test_a_client_that_no_quota_can_name_has_none_of_a_name_that_it_begins_with() -> None:
    name = "x" * 249
    known = quotas(fetching((None, name), 10), fetching((None, ""), 1_000))
    assert known.room_to_fetch("ann", name, START) == (0, 10)
    assert known.room_to_fetch("ann", name + "y", START) == (0, 1_000)
