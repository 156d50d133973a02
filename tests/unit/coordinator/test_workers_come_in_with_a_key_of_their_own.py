"""A worker proves itself to brokers by the key that it shares with nodes, and may look at offsets only."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from access import workers
from controller.catalog import LedPartition
from coordinator.tasks import _found
from groups.core.requests import Findings, ResetOffsets, Scope
from kafkaserver.callers import KafkaCaller, KnownCallers
from kafkaserver.guard import Guard
from muster.kernel.error_codes import ErrorCode
from tests.unit.client.stage import staged

KEY = "a key that nodes and workers share"


def worker_of(key: str = KEY) -> KafkaCaller:
    caller = KnownCallers([workers.caller_row(key)], key=b"test").caller(workers.NAME)
    assert caller is not None
    return caller


@contextmanager
def guarded_broker(folder: Path) -> Iterator[str]:
    """The address of a broker that asks who comes, on a loop of its own: workers have no loop."""
    guard = Guard(sasl=True)
    guard.know([workers.caller_row(KEY)])
    address: list[str] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with staged(folder, guard=guard) as stage:
            address.append(stage.address)
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.005)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield address[0]
    finally:
        over.set()
        thread.join()


def ask(address: str, security: str = "SASL_PLAINTEXT") -> Findings:
    led = [LedPartition("orders", UUID(int=1), 0, 1, 1, address, security)]
    return _found(ResetOffsets("latest"), (Scope("orders"),), led, {})


def test_leaders_that_ask_for_a_token_answer_it(settings: Any, tmp_path: Path) -> None:
    settings.SECRET_KEY = KEY
    with guarded_broker(tmp_path) as address:
        found = ask(address)
    assert (found.error, [(one.earliest, one.latest) for one in found.partitions]) == (0, [(0, 0)])


def test_another_key_is_refused_and_the_reason_told(settings: Any, tmp_path: Path) -> None:
    settings.SECRET_KEY = "another key"
    with guarded_broker(tmp_path) as address:
        found = ask(address)
    assert found.error == ErrorCode.SASL_AUTHENTICATION_FAILED and found.partitions == ()
    assert (
        "the token is refused" in found.text and "SECRET_KEY" in found.text and "Ask again" not in found.text
    )


def test_it_may_look_at_offsets_and_nothing_else() -> None:
    worker = worker_of()
    assert worker.may_describe("orders")
    assert (
        not worker.may_read("orders") and not worker.may_produce("orders") and not worker.may_create("orders")
    )
    for operation in ("view", "consume", "operate"):
        assert not worker.may_with_group(operation, "departures")


def test_every_node_knows_it_by_the_same_row_and_no_row_holds_its_token() -> None:
    row = workers.caller_row(KEY)
    workers.caller_row.cache_clear()
    assert workers.caller_row(KEY) == row != workers.caller_row("another key")
    assert workers.token_text(KEY).split("_", 2)[2] not in repr(row)


@pytest.mark.parametrize("user", [workers.NAME, "mst_-worker-"])
def test_it_is_found_by_its_name_and_by_the_public_part_of_its_token(user: str) -> None:
    known = KnownCallers([workers.caller_row(KEY)], key=b"test")
    assert known.caller_of_token(user, workers.token_text(KEY)) == worker_of()
