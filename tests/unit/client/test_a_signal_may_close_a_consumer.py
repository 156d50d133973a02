"""A program without a loop closes its consumer in a signal's handler, whatever that interrupts."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from muster import BlockingConsumer, RebalanceListener, State
from muster.client.listening import Places
from muster.kernel.instants import Instant
from tests.unit.client.test_a_program_without_a_loop_consumes import Beside


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    running = Beside(tmp_path)
    running.start()
    yield running
    running.end()


@contextmanager
def at_sigterm(handler: Callable[[], object]) -> Iterator[None]:
    """What the program does when it is told to end."""

    def handle(number: int, frame: FrameType | None) -> None:
        handler()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def interrupt_the_next_take(consumer: BlockingConsumer) -> None:
    """The signal comes while a record is being taken, when nothing else of the consumer can move."""
    processing = consumer._conversation.processing
    is_allowed = processing.may_fetch

    def look(now: Instant) -> bool:
        # The loop asks as well, in its own thread, where nothing is taken.
        if threading.current_thread() is threading.main_thread():
            processing.may_fetch = is_allowed
            signal.raise_signal(signal.SIGTERM)
        return is_allowed(now)

    processing.may_fetch = look
    # Within one millisecond it would not look again.
    consumer._main._allowed_at = Instant(0)


def test_it_may_interrupt_the_taking_of_a_record(beside: Beside) -> None:
    seen = []
    with beside.consumer(auto_commit=True) as consumer, at_sigterm(consumer.close):
        for record in consumer:
            seen.append((record.topic, record.partition))
            if len(seen) == 5:
                interrupt_the_next_take(consumer)
    assert len(seen) >= 5
    assert consumer.state is State.CLOSED
    assert sum(beside.committed.values()) == len(seen)


def test_it_may_interrupt_the_end_itself(beside: Beside) -> None:
    main = threading.main_thread().ident or 0
    told = []

    class Reminder(RebalanceListener):
        def on_revoked(self, partitions: Places) -> None:
            signal.pthread_kill(main, signal.SIGTERM)

    with beside.consumer(listener=Reminder()) as consumer:
        next(consumer)

        def close() -> None:
            consumer.close()
            told.append(consumer.state)

        with at_sigterm(close):
            consumer.close()
    assert told == [State.CLOSED]


def test_what_must_wait_for_the_taking_says_so(beside: Beside) -> None:
    refused: list[str] = []

    def ask() -> None:
        with pytest.raises(RuntimeError, match="signal") as refusal:
            consumer.commit()
        refused.append(str(refusal.value))

    with beside.consumer() as consumer, at_sigterm(ask):
        interrupt_the_next_take(consumer)
        taken = [next(consumer) for _ in range(40)]
    assert (len(taken), len(refused)) == (40, 1)
