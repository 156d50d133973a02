"""Work items: claimed by one, finished by whoever holds the claim, adopted once, taken back when late."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.pq import TransactionStatus

from runtime import work
from runtime.database import Link
from runtime.memory import MemoryConnection
from runtime.ports import VersionConflict
from tests.conformance.conftest import Rig
from tests.conformance.counters import Counter, Counters, CounterStore
from tests.conformance.databases import Breakable

LANE = "coordinator/0"


def offer(link: Link, key: str = "departures") -> str:
    return link.transaction(
        lambda connection: work.offer(connection, "rebalance", key, 4, {"cause": "join"}, LANE)
    )


def on(link: Link, method: str, *arguments: Any) -> Any:
    return link.transaction(lambda connection: getattr(connection.work_table, method)(*arguments))


def test_one_worker_claims_and_its_result_is_adopted_once(breakable: Breakable) -> None:
    link = breakable.direct()
    item = offer(link)
    claimed = on(link, "claim", item, "ann")
    assert (claimed.kind, claimed.key, claimed.based_on, claimed.payload) == (
        "rebalance",
        "departures",
        4,
        {"cause": "join"},
    )
    assert on(link, "claim", item, "ben") is None
    assert on(link, "finish", item, claimed.claim_epoch, {"share": [1]}, "")
    [done] = link.transaction(lambda connection: work.finished(connection, "rebalance", ["departures"]))
    assert (done.id, done.result, done.error) == (item, {"share": [1]}, "")
    link.transaction(lambda connection: work.adopt(connection, item))
    with pytest.raises(VersionConflict):
        link.transaction(lambda connection: work.adopt(connection, item))
    assert link.transaction(lambda connection: work.finished(connection, "rebalance", ["departures"])) == []


def test_a_claim_that_was_taken_back_cannot_be_finished(breakable: Breakable) -> None:
    link = breakable.direct()
    item = offer(link)
    slow = on(link, "claim", item, "ann")
    assert on(link, "reclaim", item, slow.claim_epoch)
    quick = on(link, "claim", item, "ben")
    assert not on(link, "finish", item, slow.claim_epoch, "late", "")
    assert on(link, "finish", item, quick.claim_epoch, "in time", "")
    assert not on(link, "reclaim", item, quick.claim_epoch)
    [done] = link.transaction(lambda connection: work.finished(connection, "rebalance", ["departures"]))
    assert done.result == "in time"


def test_what_is_not_done_cannot_be_adopted(breakable: Breakable) -> None:
    link = breakable.direct()
    item = offer(link)
    with pytest.raises(VersionConflict):
        link.transaction(lambda connection: work.adopt(connection, item))


def test_open_keys_are_those_not_adopted(breakable: Breakable) -> None:
    link = breakable.direct()
    offer(link)
    keys = ["departures", "arrivals"]
    assert link.transaction(lambda connection: work.open_keys(connection, "rebalance", keys)) == {
        "departures"
    }
    assert [row.key for row in on(link, "open_items", [LANE])] == ["departures"]
    assert on(link, "open_items", ["coordinator/1"]) == []


def test_withdrawn_work_is_neither_finished_nor_adopted(breakable: Breakable) -> None:
    link = breakable.direct()
    claimed, due, other = offer(link), offer(link), offer(link, "arrivals")
    epoch = on(link, "claim", claimed, "ann").claim_epoch
    link.transaction(lambda connection: work.withdraw(connection, "rebalance", "departures"))
    assert not on(link, "finish", claimed, epoch, {}, "")
    assert on(link, "claim", due, "ben") is None
    assert [row.id for row in on(link, "open_items", [LANE])] == [other]


def test_a_failed_computation_finishes_with_its_error(breakable: Breakable) -> None:
    link = breakable.direct()
    item = link.transaction(lambda connection: work.offer(connection, "nobody knows", "k", None, {}, LANE))
    work.perform(link, item, "ann")
    [done] = link.transaction(lambda connection: work.finished(connection, "nobody knows", ["k"]))
    assert done.error == "UnknownKind: nobody knows"


def finds_what_no_database_stores(connection: Any, item: work.WorkRow) -> Callable[[], dict[str, str]]:
    return lambda: {"member": "a\x00b"}


def test_a_result_that_cannot_be_stored_ends_the_work_all_the_same(breakable: Breakable) -> None:
    work.register("nul", f"{__name__}:finds_what_no_database_stores")
    link = breakable.direct()
    item = link.transaction(lambda connection: work.offer(connection, "nul", "k", None, {}, LANE))
    assert work.perform(link, item, "ann")
    [done] = link.transaction(lambda connection: work.finished(connection, "nul", ["k"]))
    # Memory can hold it; PostgreSQL cannot.
    assert done.error.startswith("the result cannot be stored") or done.result == {"member": "a\x00b"}


def watches_the_lock(connection: Any, item: work.WorkRow) -> Callable[[], str]:
    if isinstance(connection, MemoryConnection):
        lock = connection.database.lock
        return lambda: "busy" if lock._is_owned() else "free"  # type: ignore[attr-defined]
    status = connection.info
    return lambda: "free" if status.transaction_status is TransactionStatus.IDLE else "busy"


def test_no_transaction_is_open_while_it_computes(breakable: Breakable) -> None:
    work.register("slow", f"{__name__}:watches_the_lock")
    link = breakable.direct()
    item = link.transaction(lambda connection: work.offer(connection, "slow", "k", None, {}, LANE))
    work.perform(link, item, "ann")
    [done] = link.transaction(lambda connection: work.finished(connection, "slow", ["k"]))
    assert (done.result, done.error) == ("free", "")


def test_an_item_that_nobody_ever_finishes_ends_with_an_error(breakable: Breakable) -> None:
    work.register("slow", f"{__name__}:watches_the_lock")
    link = breakable.direct()
    item = link.transaction(lambda connection: work.offer(connection, "slow", "k", None, {}, LANE))
    for claim in range(1, work.CLAIMS_MAX + 1):
        assert on(link, "claim", item, "ann").claim_epoch == claim
        assert on(link, "reclaim", item, claim)
    assert work.perform(link, item, "ann")
    [done] = link.transaction(lambda connection: work.finished(connection, "slow", ["k"]))
    assert done.error.startswith("gave up")


async def test_a_turn_that_offers_work_tells_the_node_after_its_commit(rig: Rig) -> None:
    class Offering(CounterStore):
        def save(self, connection: Any, key: str, before: Counter, records: Any) -> None:
            super().save(connection, key, before, records)
            work.offer(connection, "rebalance", key, before.version, {})

    lane = await rig.take()
    await lane.submit_turn(Counters(store=Offering()), "orders", 1)
    [offered] = rig.offered
    assert (offered.kind, offered.key, offered.lane) == ("rebalance", "orders", LANE)
    [row] = on(rig.breakable.direct(), "open_items", [LANE])
    assert (row.id, row.state) == (offered.id, "due")
