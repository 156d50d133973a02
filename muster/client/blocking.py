"""This room is the Consumer for programs without an event loop: the same, on a thread of its own."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

from muster.client import arguments
from muster.client.arguments import Subscription
from muster.client.consumer import Consumer
from muster.client.ending import consumers
from muster.client.errors import CommitFailed
from muster.client.listening import Places, RebalanceListener
from muster.client.metrics import Metrics
from muster.client.processing import Hand, the_hand
from muster.client.readers import Readers
from muster.client.record import Offsets, Record, TopicPartition
from muster.client.standby import Standby
from muster.client.standing import State

logger = logging.getLogger("muster.client")

Answer = TypeVar("Answer")


class Options(TypedDict, total=False):
    """What may be given beside group and topics; meanings, units and defaults are the Consumer's."""

    nodes: Sequence[str]
    token: str
    consumer_id: str | None
    session_timeout_ms: int
    auto_commit: bool
    auto_offset_reset: Literal["earliest", "latest", "none"]
    ephemeral: bool
    client_id: str
    ready_timeout_ms: int
    max_poll_interval_ms: int
    max_batch_bytes: int
    listener: RebalanceListener | None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None
    sasl_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
    ca_file: str | PathLike[str] | None
    rack: str
    stands_by: bool


class BlockingStandby:
    """What a BlockingConsumer stands by for, as `Standby`; one thread iterates it, which may be any."""

    def __init__(self, standby: Standby, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._standby = standby
        self._call = call

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        async def next_record() -> Record | None:
            return await anext(self._standby, None)

        try:
            record: Record | None = self._call(next_record())
        except (RuntimeError, CancelledError):
            # The loop has ended with the consumer.
            record = None
        if record is None:
            raise StopIteration
        return record

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """As `Standby.assignment`."""
        return self._standby.assignment

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """As `Standby.seek`."""

        async def seek() -> None:
            self._standby.seek(topic, partition, offset)

        self._call(seek())


class BlockingConsumer:
    """A member of a consumer group: an iterator over the records of its partitions.

        with BlockingConsumer("departures", ["flights"], nodes=nodes, token=token) as consumer:
            for record in consumer:
                print(record.partition, record.offset, record.key)
                consumer.commit()

    It takes what a Consumer takes, and each method means and raises what it does there. Pings are answered
    by a thread of its own, also while a record is in hand. One thread iterates; everything else may be called
    in any thread. A listener's methods are plain ones, called in a thread of their own. KeyboardInterrupt
    leaves every call at once; the `with` then leaves the group, and the record in hand is not finished.

    After a fork the parent's consumer goes on, the child's copy raises RuntimeError: make another one there.
    A signal's handler may close it, whatever it interrupts. A program that ends without `close` still leaves
    the group.
    """

    def __init__(
        self,
        group: str,
        topics: Iterable[Subscription] | Mapping[Subscription, int],
        **options: Unpack[Options],
    ) -> None:
        self._consumer = Consumer(group, topics, **options)
        self._conversation = self._consumer._conversation
        self._main: Hand = self._conversation.processing.main
        self._guard = threading.RLock()
        self._conversation.hold_under(self._guard)
        self._conversation.listening.call = self._call_listener
        self.standby = BlockingStandby(self._consumer.standby, self._call)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._broken: Exception | None = None
        # A signal's handler may close what its own thread is closing.
        self._closing = threading.RLock()
        self._closed = self._forked = False
        self._iterates = self._listens = 0
        self._works = False

    # Coming and going.

    @property
    def consumer_id(self) -> str:
        """Its id in the group."""
        return self._consumer.consumer_id

    def __enter__(self) -> Self:
        """Begin to look for the coordinator; does not wait for it."""
        if self._thread is not None or self._forked:
            raise RuntimeError("this Consumer was entered before; make another one")
        started = threading.Event()
        name = f"consumer {self.consumer_id}"
        self._thread = threading.Thread(target=self._live, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.wait()
        if self._loop is None:
            raise RuntimeError("a BlockingConsumer needs a thread and an event loop") from self._broken
        consumers.add(self)
        return self

    def _live(self, started: threading.Event) -> None:
        async def live() -> None:
            self._loop = loop = asyncio.get_running_loop()
            processing = self._conversation.processing
            tell_free = processing.tell_free
            processing.tell_free = lambda: _tell(loop, tell_free)
            async with self._consumer:
                started.set()
                await self._over.wait()

        try:
            asyncio.run(live())
        except Exception as problem:
            self._broken = problem
        finally:
            started.set()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the group. After an exception the record in hand does not count as finished."""
        with self._guard:
            if kind is None:
                self._main.finish()
        self.close()

    def close(self) -> None:
        """End fetching, commit what is finished (with auto_commit), leave the group; may be called twice.

        Called by another thread than the one that iterates, it waits for the record in hand, for at most
        a third of the session timeout; in a signal's handler that interrupted the taking of a record it waits
        for nothing. Raises RuntimeError inside a listener, which it would wait for.
        """
        if self._forked:
            logger.warning(
                "consumer %s was entered in another process, where it goes on: nothing was closed here",
                self.consumer_id,
            )
            return
        if self._thread is None:
            return
        if self._listens == threading.get_ident():
            raise RuntimeError("a listener cannot close its consumer: closing waits for the listener")
        if self._interrupts_a_taking():
            threading.Thread(target=self.close, name=f"closing {self.consumer_id}", daemon=True).start()
            return
        self._go_away()
        with self._closing:
            try:
                if not self._closed:
                    self._call(self._consumer.close())
            except (RuntimeError, CancelledError):
                # Unless a signal's handler has closed it meanwhile.
                if not self._closed:
                    raise
            self._closed = True
            _tell(self._loop, self._over.set)
        self._thread.join()

    def _begin_to_close(self) -> None:
        """As `close`, but wait for nothing."""
        self._go_away()
        _tell(self._loop, self._consumer._begin_to_leave)

    def _go_away(self) -> None:
        """The calling thread finishes no record that it holds."""
        with self._guard:
            hand = the_hand.get()
            if hand is None and self._iterates == threading.get_ident():
                hand = self._main
            if hand is not None:
                hand.release()

    # Records.

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        self._iterates = threading.get_ident()
        with self._guard:
            record = self._main.take()
        if record is None:
            self._begin_to_read()
            record = self._next(self._main)
            if record is None:
                self._raise_why_it_ended()
                raise StopIteration
        return record

    def poll(self, timeout_ms: int = 0) -> Record | None:
        """The next record; None when none came within `timeout_ms` (0: wait), or the consumer is closed."""
        found = self.next_batch(1, timeout_ms=timeout_ms)
        return found[0] if found else None

    def next_batch(self, max_records: int = 500, *, timeout_ms: int = 0) -> list[Record]:
        """As `Consumer.next_batch`."""
        arguments.at_least("max_records", max_records, 1)
        arguments.at_least("timeout_ms", timeout_ms, 0)
        self._iterates = threading.get_ident()
        self._begin_to_read()
        record = self._next(self._main, timeout_ms)
        if record is None:
            self._raise_why_it_ended()
            return []
        with self._guard:
            return [record, *self._main.take_more(max_records - 1)]

    def run(self, handler: Callable[[Record], None]) -> None:
        """As `Consumer.run`, each handler in a thread of its own.

        When a handler raises, the others finish the record that they have; then it is raised here.
        """
        self._begin_to_read()
        self._works = True
        readers = Readers(self._conversation, handler, self._next, self._call)
        try:
            readers.run()
        finally:
            self._works = False
        self._raise_why_it_ended()

    def _begin_to_read(self) -> None:
        if self._thread is None:
            raise RuntimeError("a BlockingConsumer is entered by `with` first")
        if self._main.asked or self._works:
            raise RuntimeError("another thread waits for the next record of this Consumer; one iterates")

    def _next(self, hand: Hand, timeout_ms: int = 0) -> Record | None:
        """Finish what is in hand, and wait for the next record; None when there is none (in time)."""

        async def prepare() -> bool:
            try:
                async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
                    return await hand.prepare()
            except TimeoutError:
                return False

        while True:
            with self._guard:
                record = hand.take()
            if record is not None:
                return record
            try:
                if self._closed or not self._call(prepare()):
                    return None
            except (RuntimeError, CancelledError):
                if not self._closed:
                    raise
                return None

    def _raise_why_it_ended(self) -> None:
        if self._conversation.left.is_set() or self._conversation.failure is not None:
            self._consumer._raise_why_it_ended()

    # What the consumer itself does, on its loop.

    def commit(self, offsets: Offsets | None = None, *, timeout_ms: int = 0) -> None:
        """As `Consumer.commit`."""
        try:
            if not self._closed:
                return self._call(self._consumer.commit(offsets, timeout_ms=timeout_ms))
        except RuntimeError:
            # Another thread may have closed it meanwhile.
            if not self._closed:
                raise
        raise CommitFailed("the session is over")

    def skip(self, topic: str, partition: int, to_offset: int) -> None:
        """As `Consumer.skip`."""
        self._do(lambda: self._consumer.skip(topic, partition, to_offset))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """As `Consumer.seek`."""
        self._do(lambda: self._consumer.seek(topic, partition, offset))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """As `Consumer.seek_to_beginning`."""
        self._do(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """As `Consumer.seek_to_end`."""
        self._do(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """As `Consumer.pause`."""
        self._do(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """As `Consumer.resume`."""
        self._do(lambda: self._consumer.resume(*partitions))

    def position(self, topic: str, partition: int) -> int | None:
        """As `Consumer.position`."""
        return self._do(lambda: self._consumer.position(topic, partition))

    def beginning_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """As `Consumer.beginning_offsets`."""
        return self._call(self._consumer.beginning_offsets(*partitions))

    def end_offsets(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """As `Consumer.end_offsets`."""
        return self._call(self._consumer.end_offsets(*partitions))

    def offsets_for_time(self, timestamp_ms: int, *partitions: tuple[str, int]) -> dict[TopicPartition, int]:
        """As `Consumer.offsets_for_time`."""
        return self._call(self._consumer.offsets_for_time(timestamp_ms, *partitions))

    # How it stands; any thread may look.

    @property
    def state(self) -> State:
        """As `Consumer.state`."""
        return self._consumer.state

    @property
    def state_text(self) -> str:
        """As `Consumer.state_text`."""
        return self._consumer.state_text

    @property
    def metrics(self) -> Metrics:
        """As `Consumer.metrics`."""
        return self._consumer.metrics

    @property
    def generation(self) -> int:
        """As `Consumer.generation`."""
        return self._consumer.generation

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """As `Consumer.assignment`."""
        return self._consumer.assignment

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """As `Consumer.paused`."""
        return self._consumer.paused

    @property
    def threads(self) -> dict[str, frozenset[TopicPartition]]:
        """As `Consumer.threads`."""
        return self._consumer.threads

    # The other thread.

    def _do(self, action: Callable[[], Answer]) -> Answer:
        async def act() -> Answer:
            return action()

        return self._call(act())

    def _call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Let the loop do it and wait; KeyboardInterrupt cancels it there."""
        try:
            loop = self._running_loop()
            if self._interrupts_a_taking():
                raise RuntimeError("a signal's handler that interrupts the taking of a record may only close")
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            if self._closed:
                raise RuntimeError("this Consumer was closed meanwhile") from None
            raise
        finally:
            future.cancel()

    def _interrupts_a_taking(self) -> bool:
        """True in a signal's handler that came while its own thread held the guard.

        The loop waits for the guard then, so whoever waits for the loop would wait for himself.
        """
        try:
            threading.Condition(self._guard).notify(0)
        except RuntimeError:
            # It is not this thread's.
            return False
        return True

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._forked:
            raise RuntimeError("this Consumer was entered in another process; make another one in this")
        if self._loop is None:
            raise RuntimeError("a BlockingConsumer is entered by `with` first")
        if self._closed:
            raise RuntimeError("this Consumer is closed; make another one")
        if threading.current_thread() is self._thread:
            raise RuntimeError("an async listener may not call a BlockingConsumer; write a plain method")
        return self._loop

    async def _call_listener(self, method: Callable[[Places], Any], places: Places) -> BaseException | None:
        """In a thread that nobody waits for at the end: it may never return. What it raised."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[BaseException | None] = loop.create_future()

        def call() -> None:
            self._listens = threading.get_ident()
            problem: BaseException | None = None
            try:
                method(places)
            except BaseException as raised:
                problem = raised
            finally:
                self._listens = 0
            _tell(loop, lambda: _settle(done, problem))

        threading.Thread(target=call, name=f"listener of {self.consumer_id}", daemon=True).start()
        # Handed on as it is: SystemExit would end the loop, and no future takes StopIteration.
        return await done

    def _forget_the_parent(self) -> None:
        """In a child that was forked: its copies of the lock and the thread are of no use."""
        self._forked = True
        self._guard = threading.RLock()
        self._conversation.hold_under(self._guard)
        self._conversation.processing.tell_free = lambda: None
        self._main.let_go()


def _settle(done: "asyncio.Future[BaseException | None]", problem: BaseException | None) -> None:
    if not done.done():
        done.set_result(problem)


def _tell(loop: asyncio.AbstractEventLoop | None, what: Callable[[], None]) -> None:
    """Let the loop do it soon, if it is still there."""
    try:
        if loop is not None:
            loop.call_soon_threadsafe(what)
    except RuntimeError:
        return
