"""This room looks whether elections lose records only where that is journalled, and tell all that they lost.

With an unclean election the records that only others held are lost: from then on another history counts.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.core import loss_watch
from broker.core.loss_watch import LossKey
from broker.core.replica import Replica
from controller.core.records import PossibleLoss
from muster.kernel.topic_configs import UNCLEAN_LEADER_ELECTION
from muster.messages.link.losses import NOT_KNOWN, LossReport
from muster.messages.link.rows import PartitionKey, PartitionRow
from tests.simulation.replication.disk_barred import Unopened
from tests.simulation.replication.memory_log import MemoryLog, Stored
from tests.simulation.replication.wishes import Broken

if TYPE_CHECKING:
    from tests.simulation.replication.broker_process import Broker, FetchAnswer
    from tests.simulation.replication.world import World


SET_BACK = "the database was set back"
"""So begins why an election may have lost records that went by how far logs go."""


class Told(NamedTuple):
    """What a broker said of one, and how often its machine had crashed by then."""

    boot: int
    end_offset: int
    cut_to: int


class Election(NamedTuple):
    """One that may have lost records: what was committed before it, by its epoch."""

    epoch: int
    leader: int
    committed: list[Stored]
    knew: frozenset[int]
    """Who had heard of the one before it: nobody else can say what was in sync since."""


class HeldOnDisk:
    """A machine's notes of what its logs held: they outlive its processes."""

    def __init__(self) -> None:
        self.held: dict[LossKey, loss_watch.Held] = {}

    def load(self) -> dict[LossKey, loss_watch.Held]:
        return dict(self.held)

    def add(self, key: LossKey, held: loss_watch.Held) -> None:
        self.held[key] = held

    def keep(self, held: Mapping[LossKey, loss_watch.Held]) -> None:
        self.held = dict(held)


class Losses:
    """The elections of one world that may have lost records, and what brokers told of them."""

    def __init__(self, is_lossy: bool) -> None:
        self.is_lossy = is_lossy
        """In other worlds no election may lose anything, whatever is journalled."""
        self.told = self.unknown = 0
        self.has_trimmed = False
        self.lost = 0
        self._journal_read = 0
        self._elections: dict[PartitionKey, list[Election]] = defaultdict(list)
        self._held: dict[tuple[int, LossKey], tuple[list[Stored], int]] = {}
        """What a log held when that was noted, and where it began: nobody tells of what was deleted."""
        self._began: dict[LossKey, int] = {}
        """Where the elected one's log ended when it began to lead."""
        self._looked_at: set[tuple[int, int, LossKey]] = set()
        """By broker and its run."""
        self._told: dict[tuple[int, LossKey], Told] = {}

    def begin(self, world: "World") -> None:
        """Before the rest is looked at: what only others held than who was elected counts no more."""
        journal = world.database.journal
        for record in journal[self._journal_read :] if self.is_lossy else ():
            if isinstance(record, PossibleLoss):
                key = record.topic_id, record.partition
                self._look_at_reason(world, record)
                committed = world.committed[key]
                before = self._elections[key][-1].epoch if self._elections[key] else 0
                knew = frozenset(b for b, one in world.brokers.items() if one.level.get(key, 0) >= before)
                self._elections[key].append(
                    Election(record.leader_epoch, record.leader, list(committed), knew)
                )
                log = world.brokers[record.leader].logs.get(key)
                kept = common(committed, log.records if log is not None else [])
                world.committed[key] = committed[:kept]
                self.lost += len(committed) - kept
        self._journal_read = len(journal)
        for row in world.rows().partitions.values():
            self._restore(world, row)

    def _look_at_reason(self, world: "World", record: PossibleLoss) -> None:
        """The topic allows it, or the last member of the ISR has lost its tail; raises Broken."""
        row = world.rows().partitions.get((record.topic_id, record.partition))
        if row is None or is_unclean(world, row):
            return
        if record.reason.startswith(SET_BACK):
            return
        if record.leader not in record.isr or not world.brokers[record.leader].boot:
            raise Broken("an election may lose records, and its topic forbids it")

    def was_committed(self, key: PartitionKey, seen: list[Stored]) -> bool:
        """True for what counted before an election that lost it, and does again behind another one."""
        return any(seen == one.committed[: len(seen)] for one in self._elections[key])

    def _restore(self, world: "World", row: PartitionRow) -> None:
        """Until who was elected has heard of it, it may fetch on, and hold more of what was committed.

        Or it dies before, and the next one holds what it lacked.
        """
        last = next(reversed(self._elections[row.key]), None)
        if last is None:
            return
        # Where nobody leads, who was elected last is the one that others follow as soon as it does again.
        broker = world.brokers[row.leader if row.leader in world.brokers else last.leader]
        log = broker.logs.get(row.key)
        if log is None:
            return
        if broker.level.get(row.key, 0) < last.epoch:
            # It may also begin again behind the leader before it: what it holds when it leads counts.
            kept, committed = common(world.committed[row.key], log.records), world.committed[row.key]
            self.lost += len(committed) - kept
            world.committed[row.key] = committed[:kept]
            return
        for one in self._elections[row.key]:
            kept, committed = common(one.committed, log.records), world.committed[row.key]
            if kept > len(committed) and committed == one.committed[: len(committed)]:
                self.lost -= kept - len(committed)
                world.committed[row.key] = one.committed[:kept]

    def may_be_told(self, broker: "Broker") -> bool:
        """True if this broker has something to say of it, and somebody to say it to."""
        return (
            self.is_lossy and broker.link is not None and broker.view.ready and bool(broker.losses.reports())
        )

    def is_of_before(self, broker: "Broker", key: PartitionKey, replica: Replica, has_led: bool) -> bool:
        """True for a replica that has not joined what counts since an election; raises Broken.

        `has_led`: it led when it was last looked at.
        """
        if replica.leads:
            broker.level[key] = max(broker.level.get(key, 0), replica.leader_epoch)
        missed = [one for one in self._elections[key] if one.epoch > broker.level.get(key, 0)]
        if not missed:
            return False
        seen = broker.logs[key].records[: replica.high_watermark]
        if replica.leads or has_led:
            # It has not heard that it leads no more, and goes on alone: what it commits is lost, too.
            first = missed[0]
            if len(seen) > len(first.committed) and seen[: len(first.committed)] == first.committed:
                first.committed[:] = seen
        if not any(seen == one.committed[: len(seen)] for one in missed):
            raise Broken("exposed what neither counts nor was committed before an election that lost it")
        return True

    def may_cut_committed(self, broker: "Broker", key: PartitionKey) -> bool:
        """True for who comes from before an election that may have lost records."""
        return any(one.epoch > broker.level.get(key, 0) for one in self._elections[key])

    def may_have_lost(self, row: PartitionRow) -> bool:
        """True if there was an election after which other records count than before."""
        return bool(self._elections.get(row.key))

    def removed(self, key: PartitionKey) -> None:
        """Another partition may have the number."""
        self._elections.pop(key, None)

    # ------------------------------------------------------------------------------ what is told

    def look(self, world: "World") -> str:
        """What is broken of what brokers noted and told; "" if nothing is."""
        if not self.is_lossy:
            return ""
        for b, broker in world.brokers.items():
            if not broker.up:
                continue
            self._look_at_notes(b, broker)
            for key, replica in broker.replicas.items():
                if replica.leads:
                    self._began.setdefault((*key, replica.leader_epoch), replica.epoch_start_offset)
            for report in broker.losses.reports():
                made = b, broker.run, (report.topic_id, report.partition, report.leader_epoch)
                if made not in self._looked_at:
                    self._looked_at.add(made)
                    if text := self._judge(b, report, broker):
                        return text
        return ""

    def _look_at_notes(self, b: int, broker: "Broker") -> None:
        """What a log holds when that is noted; a crash of the machine may take the note."""
        noted = broker.losses._held.keys()
        known = {key for at, key in self._held if at == b}
        for gone in known - noted:
            del self._held[b, gone]
        for told in noted - known:
            # In one step it may be noted, and the log go.
            log = broker.logs.get(told[:2]) or broker.discarded[told[:2]]
            self._held[b, told] = list(log.records), log.start_offset

    def _judge(self, b: int, report: LossReport, broker: "Broker") -> str:
        """A report was made just now: the log is level with the leader's, or it is the leader's.

        Another process says what the one before it has said, but for a crash of the machine between them.
        """
        told = report.topic_id, report.partition, report.leader_epoch
        log: MemoryLog | Unopened = broker.logs.get(told[:2]) or broker.discarded[told[:2]]
        before = self._told.get((b, told))
        self._told[b, told] = said = Told(broker.boot, report.end_offset, report.cut_to)
        if before is not None and not self._is_elected(b, told):
            if before[1:] == said[1:]:
                return ""
            if before.boot == said.boot:
                return f"told {said}, and the process before it {before}"
        self.told += 1
        elections = self._elections[told[:2]]
        if self._is_elected(b, told):
            known = self._began.get(told)
            return "" if report.end_offset in (NOT_KNOWN, known) else "it began elsewhere than it tells"
        if report.end_offset == NOT_KNOWN:
            self.unknown += 1
            return "" if isinstance(log, Unopened) else "told that it does not know what it could read"
        held, start_offset = self._held.get((b, told), (log.records, log.start_offset))
        if report.end_offset != len(held):
            return "told of another end than it had"
        if report.cut_to == NOT_KNOWN:
            self.unknown += 1
            has_cause = self.has_trimmed or broker.boot or told[:2] in broker.discarded
            return "" if has_cause else "told that it does not know what nobody has deleted"
        parted = max(common(held, log.records), start_offset)
        if report.cut_to > parted:
            return f"told that it was cut to {report.cut_to}, and was cut to {parted}"
        # What was cut comes back where an election behind it is won by somebody who held it still.
        is_known = len(elections) > 1 or report.cut_to == parted
        return "" if is_known else f"told that it was cut to {report.cut_to}, and held {parted} still"

    def _is_elected(self, b: int, told: LossKey) -> bool:
        return any(one.epoch == told[2] and one.leader == b for one in self._elections[told[:2]])

    def left_over(self, world: "World") -> str:
        """At rest everybody that is there and is asked has told, and was heard."""
        rows = world.rows()
        for loss in rows.losses.values() if self.is_lossy else ():
            row = rows.partitions.get(loss.key[:2])
            # Where nobody leads, who was in sync before cannot know what is cut. Who is no replica any more
            # has told what its log held when that went, or that nobody could read it, but for a crash that
            # took what it noted.
            leads = row is not None and row.leader in world.brokers and world.brokers[row.leader].up
            assigned = set(row.assigned if row is not None else ())
            owing = {b for b, one in world.brokers.items() if one.owing.get(loss.key) == one.boot}
            may_tell = {loss.leader, *loss.isr}
            asked = {loss.leader, *(loss.isr if leads else ())} & assigned | owing & may_tell
            if any(world.brokers[b].up and b not in loss.told for b in asked):
                return "a loss is not told"
            if row is not None and (text := self._uncovered(world, loss.key, row)):
                return text
        return ""

    def _uncovered(self, world: "World", told: LossKey, row: PartitionRow) -> str:
        """Who was in sync before held all that was committed: so it tells of an end no lower."""
        loss = world.rows().losses[told]
        if loss.reason.startswith(SET_BACK):
            # Who was in sync by a row of an earlier moment need not have held it.
            return ""
        before = next((one for one in self._elections[row.key] if one.epoch == loss.leader_epoch), None)
        for cut in loss.cuts:
            if world.brokers[cut.broker_id].boot or cut.end_offset == NOT_KNOWN:
                # Its machine crashed, and perhaps what it had not flushed is gone; or nobody could read it.
                continue
            if before is None or cut.broker_id not in {*loss.isr} & before.knew:
                continue
            if cut.end_offset < len(before.committed):
                return "who held all that was committed tells of less"
        return ""


class Held:
    """What a follower held before it takes an answer over."""

    def __init__(self, world: "World", b: int, answer: "FetchAnswer") -> None:
        self._broker, self._key = world.brokers[b], answer.key
        self._replica = self._broker.replicas.get(answer.key)
        if self._replica is not None:
            self._high_watermark = self._replica.high_watermark
            self._start = self._replica.log.start_offset
            self._records = list(self._broker.logs[answer.key].records) if answer.diverging else []
            self._is_of_before = world.losses.may_cut_committed(self._broker, answer.key)

    def look_at_cut(self, world: "World", cut: int | None) -> None:
        """S29, after the log was cut to `cut`; raises Broken."""
        if cut is None or self._replica is None:
            return
        if cut < self._high_watermark and not self._is_of_before:
            raise Broken("truncated below the high watermark")
        leaders = world.brokers[self._replica.leader].logs.get(self._key)
        if leaders is not None and max(cut, self._start) < common(self._records, leaders.records):
            raise Broken("cut what the leader holds, too")


def match(logs: list[list[Stored]]) -> bool:
    """S24: equal offset and epoch means equal record and prefix."""
    for n, one in enumerate(logs):
        for other in logs[:n]:
            for i in range(min(len(one), len(other)) - 1, -1, -1):
                if one[i].epoch == other[i].epoch:
                    if one[: i + 1] != other[: i + 1]:
                        return False
                    break
    return True


def may_trim(replica: Replica) -> bool:
    """True for a leader with something that may be deleted."""
    return replica.leads and replica.high_watermark > replica.log.start_offset


def common(one: list[Stored], other: list[Stored]) -> int:
    """How many records both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def is_unclean(world: "World", row: PartitionRow) -> bool:
    """True if an election of this partition may lose records."""
    topic = world.rows().topics[row.topic_id]
    return topic.configs.get(UNCLEAN_LEADER_ELECTION) == "true"
