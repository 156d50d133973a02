"""The blocking flavour: the same consumer behind plain calls, for any thread, signal, and fork."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster import BlockingConsumer, CommitFailed, ListenerFailed, RebalanceListener, Record, State
from muster.client.listening import Places
from tests.unit.client.forks import told_by_a_child
from tests.unit.client.stage import Stage, places, staged


class Beside:
    """A stage that runs in another thread; `do` lets it do something and waits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.stage: Stage | None = None

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with staged(self._folder) as self.stage:
            self.stage.coordinator.shares = [places(0), places(1)]
            await self.stage.fill(20, partitions=2)
            self._ready.set()
            await self._over.wait()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(20)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    @property
    def committed(self) -> dict[tuple[str, int], int]:
        assert self.stage is not None
        return dict(self.stage.coordinator.committed)

    def consumer(self, **options: Any) -> BlockingConsumer:
        assert self.stage is not None
        stated = {"auto_offset_reset": "earliest", "auto_commit": False, "token": "mst_", **options}
        return BlockingConsumer("readers", {"orders": 2}, nodes=[self.stage.coordinator.address], **stated)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    running = Beside(tmp_path)
    running.start()
    yield running
    running.end()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def interrupted(when: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C as soon as this is true."""

    def press() -> None:
        until(when)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=press)
    # Also where the tests were started with SIGINT ignored, as shells do in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        presser.join()
        signal.signal(signal.SIGINT, before)


def test_it_iterates_commits_and_leaves(beside: Beside) -> None:
    seen: list[tuple[int, int]] = []
    with beside.consumer() as consumer:
        assert consumer.state in State
        for record in consumer:
            seen.append((record.partition, record.offset))
            if len(seen) == 40:
                break
        consumer.commit()
        assert beside.committed == {("orders", 0): 20, ("orders", 1): 20}
        assert (consumer.metrics.records, consumer.metrics.commits) == (40, 1)
        assert consumer.poll(20) is None
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(20)]
    assert consumer.state is State.CLOSED
    assert list(consumer) == []
    with pytest.raises(CommitFailed):
        consumer.commit()
    consumer.close()


def test_it_pauses_seeks_and_asks_for_offsets(beside: Beside) -> None:
    with beside.consumer() as consumer:
        next(consumer)
        consumer.pause(("orders", 1))
        assert consumer.paused == places(1)
        consumer.seek("orders", 0, 7)
        assert [record.offset for record in consumer.next_batch(3)] == [7, 8, 9]
        assert consumer.position("orders", 0) == 10
        assert consumer.end_offsets(("orders", 0)) == {("orders", 0): 20}
        consumer.seek_to_beginning()
        assert consumer.next_batch(1)[0].offset == 0
        consumer.resume()
        assert consumer.assignment == places(0, 1)


def test_pings_are_answered_while_a_record_is_in_hand_and_revocations_wait_for_it(beside: Beside) -> None:
    stage = beside.stage
    assert stage is not None
    with beside.consumer(auto_commit=True) as consumer:
        record = next(consumer)
        place = (record.topic, record.partition)
        beside.do(stage.coordinator.ping())
        beside.do(stage.coordinator.stop(place))
        until(lambda: len(consumer.assignment) == 1)
        stopped = asyncio.run_coroutine_threadsafe(stage.coordinator.stopped(), beside._loop)
        beside.do(stage.coordinator.ping())
        assert not stopped.done()
        others = {one.partition for one in consumer.next_batch(50)}
        stopped.result(20)
        assert others == {1 - record.partition}
        assert beside.committed[place] == 1


def test_handlers_run_in_threads_of_their_own(beside: Beside) -> None:
    both = threading.Barrier(2)
    seen: list[tuple[int, int]] = []

    def handle(record: Record) -> None:
        if record.offset == 0:
            # Passed only by two threads that run beside each other.
            both.wait(20)
        seen.append((record.partition, record.offset))
        if len(seen) == 40:
            consumer.commit()
            consumer.close()

    with beside.consumer() as consumer:
        consumer.run(handle)
    assert [offset for partition, offset in seen if partition == 0] == list(range(20))
    assert beside.committed == {("orders", 0): 20, ("orders", 1): 20}


def test_handlers_go_on_where_an_iteration_stopped(beside: Beside) -> None:
    seen: list[tuple[int, int]] = []

    def handle(record: Record) -> None:
        seen.append((record.partition, record.offset))
        if len(seen) == 40:
            consumer.close()

    with beside.consumer() as consumer:
        seen += [(record.partition, record.offset) for record in [next(consumer), *consumer.next_batch(3)]]
        consumer.run(handle)
    for number in range(2):
        assert [offset for partition, offset in seen if partition == number] == list(range(20))


def test_what_a_handler_raises_is_raised_and_comes_again(beside: Beside) -> None:
    other_waits, fixed = threading.Event(), False
    seen: list[tuple[int, int]] = []

    def handle(record: Record) -> None:
        if not fixed and (record.partition, record.offset) == (0, 3):
            assert other_waits.wait(20)
            raise ZeroDivisionError
        seen.append((record.partition, record.offset))
        if record.partition == 1 and record.offset == 19:
            other_waits.set()
        if len(seen) == 40:
            consumer.close()

    with beside.consumer() as consumer:
        with pytest.raises(ZeroDivisionError):
            consumer.run(handle)
        consumer.commit()
        assert beside.committed == {("orders", 0): 3, ("orders", 1): 20}
        fixed = True
        consumer.run(handle)
    assert [offset for partition, offset in seen if partition == 0] == list(range(20))
    assert len(seen) == 40


def test_ctrl_c_while_it_waits_for_a_record_leaves_the_group(beside: Beside) -> None:
    consumer = beside.consumer()
    with interrupted(lambda: consumer.metrics.records == 40 and consumer._main.asked), consumer:
        for _ in range(41):
            next(consumer)
    assert consumer.state is State.CLOSED


def test_ctrl_c_in_the_midst_of_a_record_does_not_finish_it(beside: Beside) -> None:
    held: list[Record] = []
    consumer = beside.consumer(auto_commit=True)
    with interrupted(lambda: len(held) == 2), consumer:
        for record in consumer:
            held.append(record)
            while len(held) == 2:
                time.sleep(0.005)
    first, second = held
    expected = {(first.topic, first.partition): 1, (second.topic, second.partition): second.offset}
    assert {place: beside.committed[place] for place in expected} == expected


def test_ctrl_c_while_a_commit_is_unanswered_and_while_handlers_run(beside: Beside) -> None:
    stage = beside.stage
    assert stage is not None
    with beside.consumer() as consumer:
        next(consumer)
        stage.coordinator.answers_commits = False
        with interrupted(lambda: consumer._conversation.committing._asked):
            consumer.commit()
        stage.coordinator.answers_commits = True
        with interrupted(lambda: consumer.metrics.records > 10):
            consumer.run(lambda record: time.sleep(0.01))
        consumer.commit()
    assert consumer.state is State.CLOSED


def test_closing_in_another_thread_waits_for_the_record_in_hand(beside: Beside) -> None:
    with beside.consumer(auto_commit=True) as consumer:
        record = next(consumer)
        closing = threading.Thread(target=consumer.close)
        closing.start()
        until(lambda: not consumer.assignment)
        assert closing.is_alive()
        assert list(consumer) == []
        closing.join()
        assert beside.committed[record.topic, record.partition] == record.offset + 1


def test_a_listener_runs_beside_the_program_and_may_call_its_consumer(beside: Beside) -> None:
    heard: list[str] = []

    class Seeker(RebalanceListener):
        def on_assigned(self, partitions: Places) -> None:
            for place in partitions:
                consumer.seek(*place, 18)
            with pytest.raises(RuntimeError, match="a listener cannot close"):
                consumer.close()

        def on_revoked(self, partitions: Places) -> None:
            consumer.commit()
            heard.append("revoked")

    with beside.consumer(listener=Seeker()) as consumer:
        assert sorted(next(consumer).offset for _ in range(4)) == [18, 18, 19, 19]
    assert heard == ["revoked"]
    assert beside.committed == {("orders", 0): 20, ("orders", 1): 20}


def test_what_a_listener_raises_ends_the_iteration(beside: Beside) -> None:
    class Broken(RebalanceListener):
        def on_assigned(self, partitions: Places) -> None:
            raise KeyError("no such table")

    with beside.consumer(listener=Broken()) as consumer, pytest.raises(ListenerFailed, match="no such table"):
        next(consumer)


@pytest.mark.parametrize("raised", [SystemExit(1), StopIteration("nothing left")], ids=["exit", "end"])
def test_whatever_a_listener_raises_is_told(beside: Beside, raised: BaseException) -> None:
    """No future takes StopIteration, and SystemExit would end the loop."""

    class Broken(RebalanceListener):
        def on_assigned(self, partitions: Places) -> None:
            raise raised

    with beside.consumer(listener=Broken()) as consumer, pytest.raises(ListenerFailed) as told:
        next(consumer)
    assert told.value.__cause__ is raised


def test_after_a_fork_the_child_is_told_and_the_parent_goes_on(beside: Beside) -> None:
    with beside.consumer() as consumer:
        next(consumer)

        def act(tell: Callable[[str], None]) -> None:
            for action in (lambda: next(consumer), consumer.commit, consumer.close):
                try:
                    action()
                except RuntimeError as refusal:
                    tell(str(refusal))

        told = told_by_a_child(act)
        assert ["another process" in one for one in told] == [True, True, True]
        assert len(consumer.next_batch(50)) >= 19
        consumer.commit()


def test_it_is_entered_first_and_once(beside: Beside) -> None:
    consumer = beside.consumer()
    with pytest.raises(RuntimeError, match="entered by `with` first"):
        next(consumer)
    with consumer, pytest.raises(RuntimeError, match="make another one"):
        consumer.__enter__()
    with pytest.raises(ValueError, match="topics"):
        BlockingConsumer("readers", "orders", nodes=["ws://one"], token="t")


def test_a_commit_hears_that_another_thread_closed_the_consumer(beside: Beside) -> None:
    assert beside.stage is not None
    with beside.consumer() as consumer, ThreadPoolExecutor(1) as other:
        next(consumer)
        beside.do(beside.stage.coordinator.end())
        committing = other.submit(consumer.commit, timeout_ms=600_000)
        until(lambda: consumer.metrics.commit_retries > 0)
        consumer.close()
        with pytest.raises(CommitFailed, match="the session is over"):
            committing.result(20)
