"""This room lets the brokers of a small world obey, fetch and propose: `Replica`, thawed for each step."""

from typing import Any

from broker.core.in_sync import Progress
from broker.core.replica import Obeyed, Replica, Role
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import IsrProposal
from muster.messages.link.rows import NO_LEADER, PartitionRow
from tests.simulation.replication.small_states import NOW, TOPIC, Hosted, Machine, TinyLog
from tests.simulation.replication.small_turns import SmallController
from tests.simulation.replication.wishes import Broken


class SmallBrokers(SmallController):
    """What one broker does, or two; each step depends on nothing but them."""

    def _replica(self, b: int, machine: Machine) -> Replica:
        hosted = machine.hosted
        assert hosted is not None
        replica = Replica(b, TinyLog(machine.log), 0, self.min_insync)
        row = replica.row = hosted.row
        replica.high_watermark, replica.epoch_start_offset = hosted.high_watermark, hosted.epoch_start
        replica.role = Role.LEADER if row.leader == b else Role.FOLLOWER
        if row.leader == NO_LEADER:
            replica.role = Role.OFFLINE
        if hosted.pending is not None:
            base, isr, epochs = hosted.pending
            replica.pending = IsrProposal(
                topic_id=TOPIC, partition=0, base_version=base, isr=isr, broker_epochs=dict(epochs)
            )
        for follower, epoch, end_offset, asks in hosted.progress:
            one = replica._progress[follower] = Progress(NOW)
            one.broker_epoch, one.end_offset, one.asks_admission = epoch, end_offset, asks
        if replica.leads:
            replica._count_followers()
        return replica

    def _hosting(self, machine: Machine, replica: Replica) -> Machine:
        assert replica.row is not None
        pending = None
        if replica.pending is not None:
            epochs = tuple(sorted(replica.pending.broker_epochs.items()))
            pending = (replica.pending.base_version, replica.pending.isr, epochs)
        progress = tuple(
            (b, one.broker_epoch, one.end_offset, one.asks_admission)
            for b, one in sorted(replica._progress.items())
        )
        hosted = Hosted(replica.row, replica.high_watermark, replica.epoch_start_offset, pending, progress)
        return machine._replace(hosted=hosted)

    def _obeying(self, b: int, machine: Machine, row: PartitionRow, from_snapshot: bool) -> Machine:
        if machine.hosted is None:
            if b not in row.assigned:
                return self.stopped(machine)
            replica = Replica(b, TinyLog(machine.log), 0, self.min_insync)
        else:
            replica = self._replica(b, machine)
        if replica.obey(row, NOW, from_snapshot) is Obeyed.STOPPED:
            return self.stopped(machine)
        return self._hosting(machine, replica)

    def stopped(self, machine: Machine) -> Machine:
        """Not assigned any more: the log is set aside and never used again."""
        return machine._replace(hosted=None, log=(), late=())

    def heed(self, b: int, number: int) -> int:
        """The next frame of the link."""
        machine: Machine = self.things[number]
        frame, machine = machine.inbox[0], machine._replace(inbox=machine.inbox[1:])
        match frame:
            case ("snapshot", row, epoch):
                machine = machine._replace(ready=True, epoch=epoch, lost=False)
                machine = self._obeying(b, machine, row, True)
            case ("row", row):
                machine = self._obeying(b, machine, row, False)
            case ("answer", base, row) if machine.hosted is not None:
                replica = self._replica(b, machine)
                if replica.hear_answer(base, row, NOW) is Obeyed.STOPPED:
                    machine = self.stopped(machine)
                else:
                    machine = self._hosting(machine, replica)
        if machine.log and machine.hosted is None:
            raise Broken("a log that was set aside is used again")
        return self.number(machine)

    def propose(self, b: int, number: int, lag_time_max_ms: int) -> int | None:
        """The leader asks for another ISR; None: it has nothing to ask for."""
        machine: Machine = self.things[number]
        replica = self._replica(b, machine)
        proposal = replica.propose(NOW, machine.ready, range(1, self.brokers + 1), lag_time_max_ms)
        if proposal is None:
            return None
        epochs = tuple(sorted(proposal.broker_epochs.items()))
        frame = ("proposal", b, proposal.base_version, proposal.isr, epochs)
        machine = self._hosting(machine, replica)
        return self.number(machine._replace(outbox=(*machine.outbox, frame)))

    def append(self, b: int, number: int) -> int:
        """The leader stores the next value."""
        machine: Machine = self.things[number]
        assert machine.hosted is not None
        value = machine.log[-1][1] + 1 if machine.log else 1
        machine = machine._replace(log=(*machine.log, (machine.hosted.row.leader_epoch, value)))
        replica = self._replica(b, machine)
        replica.appended()
        return self.number(self._hosting(machine, replica))

    # ------------------------------------------------------------------------------ two brokers

    def fetch(self, b: int, number: int, leader: int, leader_number: int, fate: str) -> tuple[int, int]:
        """Broker b asks its leader; the answer comes now, late, or is lost."""
        machine: Machine = self.things[number]
        serving: Machine = self.things[leader_number]
        position = self._replica(b, machine).next_fetch()
        if position is None or serving.hosted is None or not serving.up:
            return number, leader_number
        replica = self._replica(leader, serving)
        verdict = replica.follower_fetches(
            b, machine.epoch, position.leader_epoch, position.offset, position.last_epoch, NOW
        )
        if isinstance(verdict, ErrorCode):
            return number, leader_number
        serving = self._hosting(serving, replica)
        records = serving.log[position.offset :] if verdict is None else ()
        answer = (position, verdict, records, replica.high_watermark)
        if fate == "late":
            machine = machine._replace(late=answer)
        elif fate == "now":
            machine = self._taking(b, machine, answer)
        return self.number(machine), self.number(serving)

    def receive(self, b: int, number: int) -> int:
        """An answer that was late comes."""
        machine: Machine = self.things[number]
        return self.number(self._taking(b, machine._replace(late=()), machine.late))

    def _taking(self, b: int, machine: Machine, answer: tuple[Any, ...]) -> Machine:
        if machine.hosted is None:
            return machine
        asked, verdict, records, high_watermark = answer
        replica = self._replica(b, machine)
        if verdict is not None:
            before = replica.high_watermark
            end_offset = replica.heed_diverging(asked, verdict)
            if end_offset is None:
                return machine
            if end_offset < before:
                raise Broken("truncated below the high watermark")
            return self._hosting(machine._replace(log=machine.log[:end_offset]), replica)
        if not replica.accepts(asked):
            return machine
        machine = machine._replace(log=(*machine.log, *records))
        replica = self._replica(b, machine)
        replica.followed(high_watermark)
        return self._hosting(machine, replica)
