"""This room answers Produce: records into the log, and the answer when they are as safe as was asked."""

from typing import Final

import structlog

from broker.core.refused_batches import SENT_AGAIN, RefusedBatches
from broker.core.replica_log import PartitionKey
from broker.deadlines import Deadlines
from broker.hosted import HostedPartition
from broker.log.accepting import MOST_BLAMED
from broker.log.outcomes import AppendRefused, StorageFailed
from broker.replicas import DataPlane
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.quotas import ClientQuotas
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from muster.kafkawire.batches import CODEC_BITS, NO_TIMESTAMP, ZSTD, BatchHeader, read_header
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.new_leaders import LeaderOf
from muster.kafkawire.produce import PartitionRecords, ProduceRequest, produce_answer, read_produce
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import after

log = structlog.get_logger(__name__)

ALL_IN_SYNC: Final = -1
LONGEST_TIMEOUT_MS = 300_000
"""No produce is parked for longer, whatever was asked."""

LOOKED_INTO_MS: Final = 500
"""For so long one request may have its batches opened, for their keys or to compress them anew, which holds
the loop: for one up to a fifth of a second (`broker.log.accepting`), and a request may hold a hundred."""

_ZSTD_SINCE: Final = 7
"""Of Produce: who speaks an earlier version is not to know of it, nor are who reads beside it (KIP-110)."""

_NO_OFFSET: Final = -1
_ACKS: Final = (ALL_IN_SYNC, 0, 1)
_NONE: Final = ErrorCode.NONE
"""To find it in its class takes as long as a call."""


class _Outcome:
    """The answer for one partition, as far as it is known. It waits itself to hear that it is committed."""

    __slots__ = (
        "_hosted",
        "_parked",
        "append_time_ms",
        "base_offset",
        "error_code",
        "header",
        "log_start_offset",
        "partition",
        "text",
        "topic",
        "wrong_records",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.error_code = _NONE
        self.base_offset = _NO_OFFSET
        self.log_start_offset = _NO_OFFSET
        self.append_time_ms = NO_TIMESTAMP
        self.text: str | None = None
        self.wrong_records: tuple[int, ...] = ()
        self.header: BatchHeader | None = None
        """Of a batch that was stored."""
        self._parked: _ParkedProduce | None = None
        """Whoever is to hear of it, as long as that is not known."""

    def refuse(
        self, error_code: ErrorCode, text: str | None = None, wrong_records: tuple[int, ...] = ()
    ) -> None:
        self.error_code = error_code
        self.text = text
        self.wrong_records = wrong_records
        self.base_offset = _NO_OFFSET

    def blame_no_more_than(self, number: int) -> int:
        """How many records it blames: a request may hold hundreds of such batches, and be kept long."""
        self.wrong_records = self.wrong_records[: max(number, 0)]
        return len(self.wrong_records)

    def wait(self, parked: "_ParkedProduce", hosted: HostedPartition, next_offset: int) -> None:
        """Tell `parked` when all below `next_offset` is committed."""
        self._parked, self._hosted = parked, hosted
        hosted.await_commit(next_offset, self)

    @property
    def waits(self) -> bool:
        """Nobody knows what becomes of its records."""
        return self._parked is not None

    def committed(self, _key: PartitionKey) -> None:
        parked = self._parked
        if parked is not None:
            self._parked = None
            parked.one_less()

    def refused(self, _key: PartitionKey, error_code: ErrorCode) -> None:
        parked = self._parked
        if parked is not None:
            self._parked = None
            parked.refuse(self, error_code)
            parked.one_less()

    def leave(self) -> None:
        """Nobody is to be told any more."""
        if self._parked is not None:
            self._parked = None
            self._hosted.forget(self)


class _ParkedProduce:
    """A Produce with acks=all whose records wait for the high watermark."""

    __slots__ = (
        "_deadlines",
        "_header",
        "_leader_of",
        "_left",
        "_refused",
        "_throttle_ms",
        "is_waiting",
        "outcomes",
        "reply",
    )

    def __init__(
        self,
        header: RequestHeader,
        reply: Reply,
        outcomes: list[_Outcome],
        throttle_ms: int,
        refused: RefusedBatches,
        deadlines: Deadlines,
        leader_of: LeaderOf,
    ) -> None:
        self.reply = reply
        self.outcomes = outcomes
        self.is_waiting = True
        self._header = header
        self._throttle_ms = throttle_ms
        self._refused = refused
        self._deadlines = deadlines
        self._leader_of = leader_of
        self._left = 0
        """Outcomes that wait."""

    def park(self, waiting: list[tuple[HostedPartition, int, _Outcome]], timeout_ms: int) -> None:
        """Wait for each of `waiting`, at most `timeout_ms`, and no longer than there is anybody to tell."""
        self._left = len(waiting)
        self.reply.park(self._left, self._leave)
        for hosted, next_offset, outcome in waiting:
            outcome.wait(self, hosted, next_offset)
        self._deadlines.enter(self, min(timeout_ms, LONGEST_TIMEOUT_MS) / 1000)

    def one_less(self) -> None:
        """What became of one of them is known."""
        self._left -= 1
        if not self._left:
            self.is_waiting = False
            self._deadlines.leave()
            self.reply.send(self._answer())

    def refuse(self, outcome: _Outcome, error_code: ErrorCode) -> None:
        """Whether its records stay nobody knows: what stands behind them waits until they come again."""
        outcome.refuse(error_code)
        if outcome.header is not None:
            place = outcome.topic, outcome.partition
            self._refused.note(place, self.reply.peer, outcome.header, error_code)

    def time_is_over(self) -> None:
        """The records stay in the log; the producer does not know of them and tries again."""
        for outcome in self.outcomes:
            if outcome.waits:
                self.refuse(outcome, ErrorCode.REQUEST_TIMED_OUT)
        self._leave()
        self.reply.send(self._answer())

    def _answer(self) -> bytes:
        return produce_answer(self._header, self.outcomes, self._throttle_ms, self._leader_of)

    def _leave(self) -> None:
        """Also where it has left, and its answer failed: the connection ends later. Counted twice, it would
        take the time of another away."""
        if not self.is_waiting:
            return
        self.is_waiting = False
        self._deadlines.leave()
        for outcome in self.outcomes:
            outcome.leave()


class ProduceHandler:
    """Serves Produce from one data plane (conformance 225)."""

    def __init__(self, plane: DataPlane, quotas: ClientQuotas) -> None:
        self._plane = plane
        self._quotas = quotas
        self._refused = RefusedBatches()
        self._deadlines = Deadlines()

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Append, then answer now (acks=1), never (0), or when committed (all). Raises MalformedFrame."""
        request = read_produce(header, frame)
        caller, throttle_ms = caller_of(reply), 0
        if self._quotas.bound_producers:
            throttle_ms = self._quotas.produced(
                caller.principal, header.client_id, len(frame), self._plane.clock()
            )
            reply.throttle(throttle_ms)
        outcomes: list[_Outcome] = []
        waiting: list[tuple[HostedPartition, int, _Outcome]] = []
        blamed = 0
        enough_at = after(self._plane.clock(), LOOKED_INTO_MS) if len(request.parts) > 1 else None
        for records in request.parts:
            outcome = _Outcome(records.topic, records.partition)
            outcomes.append(outcome)
            hosted = self._judge(request, records, caller)
            if not isinstance(hosted, HostedPartition):
                outcome.refuse(hosted)
            elif header.api_version < _ZSTD_SINCE and _is_zstd(records):
                text = f"zstd is not for Produce below version {_ZSTD_SINCE}"
                outcome.refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
            elif enough_at is not None and hosted.log.settings.opens and self._plane.clock() > enough_at:
                outcome.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, "the request holds too many records at once")
            else:
                next_offset = self._append(hosted, records, outcome, reply)
                if next_offset > hosted.replica.high_watermark:
                    waiting.append((hosted, next_offset, outcome))
            if outcome.error_code is not _NONE:
                blamed = outcome.blame_no_more_than(MOST_BLAMED - blamed) + blamed
                if outcome.error_code in SENT_AGAIN:
                    self._note_refused(records, reply.peer, outcome.error_code)
        if request.acks == 0:
            self._answer_nobody(outcomes, reply)
        elif waiting and request.acks == ALL_IN_SYNC:
            parked = _ParkedProduce(
                header, reply, outcomes, throttle_ms, self._refused, self._deadlines, self._plane.leader_of
            )
            parked.park(waiting, request.timeout_ms)
        else:
            reply.send(produce_answer(header, outcomes, throttle_ms, self._plane.leader_of))

    def _answer_nobody(self, outcomes: list[_Outcome], reply: Reply) -> None:
        """acks=0 has no answer: an error can only be told by hanging up."""
        failed = [outcome for outcome in outcomes if outcome.error_code is not ErrorCode.NONE]
        if failed:
            reply.hang_up(f"produce with acks=0 failed: {failed[0].error_code.name}")
        else:
            reply.send()

    def _append(
        self, hosted: HostedPartition, produced: PartitionRecords, outcome: _Outcome, reply: Reply
    ) -> int:
        """The offset behind what was stored; -1 if it was refused."""
        records = produced.records
        if records is None:
            outcome.refuse(ErrorCode.INVALID_RECORD, "no batch")
            return _NO_OFFSET
        if self._plane.upkeep.is_short_of_room:
            hosted.on_trouble(hosted, True)
            outcome.refuse(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of this broker is nearly full")
            return _NO_OFFSET
        in_the_way = self._in_the_way(hosted, produced, reply.peer) if len(self._refused) else None
        if in_the_way:
            outcome.refuse(in_the_way)
            return _NO_OFFSET
        try:
            appended = hosted.append_produced(
                records, self._plane.wall_clock_ms(), is_sent_again=in_the_way is ErrorCode.NONE
            )
        except AppendRefused as error:
            outcome.refuse(error.error_code, str(error), error.wrong_records)
            return _NO_OFFSET
        except StorageFailed as error:
            log.error("append_failed", topic=hosted.topic, partition=hosted.key.partition, reason=str(error))
            outcome.refuse(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return _NO_OFFSET
        outcome.base_offset = appended.base_offset
        outcome.append_time_ms = appended.append_time_ms
        outcome.header = appended.header
        outcome.log_start_offset = hosted.log.start_offset
        return appended.next_offset

    def _judge(
        self, request: ProduceRequest, records: PartitionRecords, caller: KafkaCaller
    ) -> HostedPartition | ErrorCode:
        """The partition if its log may be appended to; else why not."""
        if request.acks not in _ACKS:
            return ErrorCode.INVALID_REQUIRED_ACKS
        if request.transactional_id is not None:
            return ErrorCode.INVALID_REQUEST
        if not caller.may_produce(records.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        plane = self._plane
        hosted = plane.led(records.topic, records.partition)
        if (
            request.acks == ALL_IN_SYNC
            and isinstance(hosted, HostedPartition)
            and not hosted.replica.enough_in_sync(
                plane.live, plane.clock(), plane.settings.replica_lag_time_max_ms
            )
        ):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return hosted

    def _in_the_way(self, hosted: HostedPartition, records: PartitionRecords, peer: str) -> ErrorCode | None:
        """Why a batch before this one was refused; NONE: this one was; None: none, or it matters no more."""
        header = _header_of(records)
        if header is None:
            return None
        place = records.topic, records.partition
        return self._refused.in_the_way(place, peer, header, hosted.log.producers)

    def _note_refused(self, records: PartitionRecords, peer: str, error_code: ErrorCode) -> None:
        header = _header_of(records)
        if header is not None:
            place = records.topic, records.partition
            hosted = self._plane.named(*place)
            producers = hosted.log.producers if hosted is not None else None
            self._refused.note(place, peer, header, error_code, producers)


def _header_of(records: PartitionRecords) -> BatchHeader | None:
    """None: it has none that could be read."""
    try:
        return None if records.records is None else read_header(records.records)
    except CorruptBatch:
        return None


def _is_zstd(records: PartitionRecords) -> bool:
    header = _header_of(records)
    return header is not None and header.attributes & CODEC_BITS == ZSTD
