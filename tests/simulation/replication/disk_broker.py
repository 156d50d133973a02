"""This room runs the broker's data plane in the simulation: real logs in real files, real fetch sessions.

What a process does by sockets and timers is done here step by step; the rules, the logs, the files, the words
of a fetch are the product's. A disk can refuse, tear and flip what it holds.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from broker.core.cluster_view import ClusterView, Heeded
from broker.core.loss_watch import LossWatch
from broker.core.replica import Replica
from broker.core.replica_log import PartitionKey
from broker.folder import DataFolder
from broker.handlers_replication import ReplicaFetchHandler
from broker.held_notes import FILE, HeldNotes
from broker.log.files import OpenFiles
from broker.log.outcomes import LARGEST, AppendRefused, LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.shelf import LogShelf
from broker.metadata import ClientMetadata
from broker.plane_settings import DataPlaneSettings
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from muster.kafkawire import batches
from muster.kafkawire.api_table import read_request_header
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import BrokerHello, UnusableLogs
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import HelloAccepted
from tests.simulation.replication.broker_process import incarnation
from tests.simulation.replication.controller_process import Link
from tests.simulation.replication.disk_barred import BarredLogs, kept_records
from tests.simulation.replication.disk_following import Diverged, FollowingBroker, HeldCuts
from tests.simulation.replication.disk_harm import Rotten, chosen_byte, keep, place_in_batch, refusing, rot
from tests.simulation.replication.disk_log import DAY_MS, DiskLog, KeptRecords, batch_of
from tests.simulation.replication.disk_time import closed_by_age, looked_at, why_not_obeyed
from tests.simulation.replication.disk_wire import Answered, Connection, Sent, bytes_of
from tests.simulation.replication.memory_log import Stored, mark_of

SMALL = DataPlaneSettings(log=LogSettings(segment_bytes=250, producer_id_expiration_ms=LARGEST))
"""Two or three batches fill a segment, so that walks meet full ones. The one producer is never forgotten."""
OPEN_FILES = 6
WALL_MS = 200_000_000
"""Behind every stamp of a batch, and before any retention."""


class DiskBroker(FollowingBroker):
    """One machine with a disk. What `Broker` keeps in memory lies in files here."""

    settings = SMALL
    calendar: Callable[[], int] = staticmethod(lambda: WALL_MS)
    has_gaps = False
    """Its logs may lack offsets, as compacted ones do."""

    def __init__(
        self, broker_id: int, folder: Path, runner: asyncio.Runner, now: Callable[[], Instant], rng: Random
    ) -> None:
        self.broker_id = broker_id
        self.folder = folder
        self.up = False
        self.run = self.boot = 0
        self.crashed, self.crashed_in = 0, ""
        self.links_opened = 0
        self.needs_restart = False
        """A disk did something that only another start makes good."""
        self.is_flipped = False
        """A batch in memory or on disk is not what was stored; a clean stop would vouch for it."""
        self.level, self.discarded, self.owing = {}, {}, {}
        self._rotten: Rotten | None = None
        self._runner = runner
        self._now = now
        self._rng = rng
        self._kept: dict[Any, KeptRecords] = {}
        self._views: dict[Any, DiskLog] = {}
        self.barred = BarredLogs()
        self._unsynced_gone: set[tuple[PartitionKey, int]] = set()
        self.committed: dict[Any, list[Stored]] = {}
        """What the world knows to be committed."""
        self.below: dict[Any, list[Stored]] | None = None
        """Where histories part: what each log held, or its leader did, of what it has deleted."""
        self.may_cut: Callable[[PartitionKey], bool] = lambda _key: False
        """Whether an election may have lost what is committed here."""
        self.start()

    # ------------------------------------------------------------------------------ life

    def start(self) -> None:
        self.up = True
        self.run += 1
        self.broker_epoch = 0
        self.needs_restart = self.is_flipped = False
        self.leaving = self.may_leave = False
        self.answers = []
        self.link: Link | None = None
        self.connections: dict[int, Connection] = {}
        self._resting: set[PartitionKey] = set()
        self.data = DataFolder(self.folder, self.broker_id)
        self.data.open(f"boot-{self.boot}")
        is_clean, same_boot = self.data.stopped_cleanly, self.data.same_boot
        self._shelf = LogShelf(self.data.partitions, is_clean, OpenFiles(OPEN_FILES), same_boot=same_boot)
        shelf = self._shelf
        shelf.scan(self.data.lose_tail)
        self.plane = DataPlane(self.broker_id, shelf, self.settings, self._now, self.wall_ms)
        self.led = self.plane.led_epochs
        self.cuts, self._leaders = HeldCuts(self.plane, self._runner), {}
        self.plane.on_trouble = self._state_unusable
        self.plane.losses.begin(HeldNotes(self.folder), _nobody_is_rung, shelf.may_lack)
        with self.barred.at_a_start():
            self._runner.run(self.plane.open_logs())
        if self.barred.unopened:
            self.needs_restart = True
            if self.crashed:
                # What the crash took of them is found, and said, by the process that opens them.
                self.crashed, self.crashed_in = 1, incarnation(self.run)
        self.view = ClusterView(self.broker_id)
        self._metadata = ClientMetadata(self.view)
        self._handler = ReplicaFetchHandler(self.plane, WakeUps())
        self._views = {}
        if self.below is not None:
            self.below = {key: one.records for key, one in self._kept.items()}

    @property
    def lost_tail(self) -> bool:  # type: ignore[override]
        return self.data.lost_tail

    @property
    def losses(self) -> LossWatch:  # type: ignore[override]
        return self.plane.losses

    @property
    def replicas(self) -> dict[Any, Replica]:  # type: ignore[override]
        return {hosted.key: hosted.replica for hosted in self.plane.partitions()} if self.up else {}

    @property
    def logs(self) -> dict[Any, Any]:  # type: ignore[override]
        if not self.up:
            return self._kept
        opened = self._shelf._open
        for key, log in opened.items():
            if key not in self._views or self._views[key]._log is not log:
                self._views[key] = self.view_of(log, partial(self._committed_of, key))
        return {key: self._views[key] for key in opened} | self.barred.seen(self._shelf.holds, opened)

    def view_of(self, log: PartitionLog, deleted: Callable[[], list[Stored]]) -> DiskLog:
        """How the checks see a log."""
        return DiskLog(log, deleted)

    def batch_of(self, value: int, broker_id: int, run: int, mark: int) -> bytes:
        """The producer's batch with this value; its time says who stored it, and under which topic id."""
        return batch_of(value, broker_id, run, mark, self.day)

    def wall_ms(self) -> int:
        """The calendar."""
        return self.calendar()

    @property
    def day(self) -> int:
        """How many have passed since the walk began."""
        return (self.calendar() - WALL_MS) // DAY_MS

    def _committed_of(self, key: Any) -> list[Stored]:
        return (self.committed if self.below is None else self.below).get(key, [])

    def _remember(self, key: Any) -> None:
        """Before something of it is deleted here."""
        if self.below is not None:
            self.below[key] = list(self.logs[key].records)

    def kill(self) -> None:
        self.cuts.end()
        self._kept = kept_records(self.logs)
        self.barred.ended(self)
        self.up = False
        self.answers = []
        self._leave_link()
        self.data.close()
        for key, synced in sorted(self._unsynced_gone):
            # The fsync that failed was told once; what it should have written is gone when memory is.
            one = self.barred.on_disk.get(key)
            if one is not None and one.folder.exists() and synced <= len(self._kept[key].records):
                self._keep(key, self._rng.randint(synced, len(self._kept[key].records)))
        self._unsynced_gone.clear()

    def _keep(self, key: PartitionKey, end_offset: int) -> None:
        """Of this log, whose process is gone, nothing else is left."""
        keep(self.barred.on_disk[key].folder, end_offset, self._rng)
        self.barred.cut(key, end_offset)

    def stop(self) -> None:
        """A clean stop: everything is flushed."""
        kept = kept_records(self.logs)
        self.cuts.end()
        if self._runner.run(self.plane.close()):
            self.data.mark_clean()
        self.kill()
        self._kept = kept

    def crash_machine(self, kept: Callable[[Any], int]) -> None:
        """Any suffix that was not flushed is gone, and small files may be older ones."""
        self.kill()
        self.boot += 1
        self.crashed, self.crashed_in = 1, incarnation(self.run)
        for key, one in self.barred.on_disk.items():
            records = self._kept.get(key)
            if records is not None and one.folder.exists():
                self._keep(key, max(one.durable, kept(records)))
                if self._rng.random() < 0.2:
                    (one.folder / "leader-epoch-checkpoint").unlink(missing_ok=True)
        if Random(self.boot + self.broker_id).random() < 0.3:
            (self.folder / FILE).unlink(missing_ok=True)

    # ------------------------------------------------------------------------------ what a disk does

    def tear(self) -> None:
        """Killed in the middle of a write: the beginning of one batch more lies behind some log."""
        self.kill()
        for key, log in sorted(self._shelf._open.items()):
            paths = sorted(log.folder.glob("*.log"))
            if paths and self._rng.random() < 0.6:
                batch = bytearray(self.batch_of(len(self._kept[key].records) + 1, *self._writes(key)))
                epoch = self._kept[key].records[-1].epoch if self._kept[key].records else 1
                batches.stamp(batch, 0, len(self._kept[key].records), epoch)
                with paths[-1].open("ab") as file:
                    file.write(batch[: self._rng.randint(1, len(batch) - 1)])

    def flip(self) -> None:
        """One bit of what is not yet flushed, or of a small file; a machine that runs must start again."""
        logs = [log for _, log in sorted(self._shelf._open.items()) if log.folder.exists()]
        if not logs:
            return
        self.crashed, self.crashed_in = 1, incarnation(self.run)
        self.needs_restart = self.up
        chosen = self._rng.choice(logs)
        paths = [
            path
            for path in sorted(chosen.folder.iterdir())
            if path.stat().st_size and (path.suffix != ".log" or self._is_unflushed(chosen, path))
        ]
        if not paths:
            return
        path, data, at = chosen_byte(paths, self._rng)
        place = place_in_batch(data, at) if path.suffix == ".log" else -1
        if self.up and place in range(12, 16):
            # A leader that sends another plausible epoch is believed: nothing but its own file could tell.
            return
        if self.has_gaps and place in range(8):
            # Offsets may be missing, and no checksum of the format covers the one of a batch.
            return
        self.is_flipped |= self.up and path.suffix == ".log"
        for view in self.logs.values():
            _ = view.records
            view.is_damaged |= self.up
        data[at] ^= 1 << self._rng.randrange(8)
        path.write_bytes(data)

    def rot(self) -> None:
        """One bit of a batch that was flushed, outside its head: no start looks for it."""
        logs = [log for _, log in sorted(self._shelf._open.items())]
        self._rotten = rot([(log.folder, log.recovery_point) for log in logs], self._rng)

    def look_for_rot(self) -> bool:
        """As long as the batch is there this machine's log may be cut at any start."""
        if self._rotten is not None:
            if self._rotten.is_there:
                self.crashed, self.crashed_in = 1, incarnation(self.run)
            else:
                self._rotten = None
        return self._rotten is not None

    def _is_unflushed(self, log: PartitionLog, path: Path) -> bool:
        """What was flushed is checked when it is read, not when it is opened.

        The last segment, too, as soon as another one follows: that may be before the next start.
        """
        following = [int(one.stem) for one in path.parent.glob("*.log") if int(one.stem) > int(path.stem)]
        return min(following, default=log.end_offset) > log.recovery_point

    def flush(self, fails: bool) -> None:
        """Full segments become durable. What is damaged must not: flushed, it would not be checked again."""
        if self.needs_restart:
            return
        if not fails:
            self._runner.run(self.plane.upkeep.flush_full_segments())
            return
        # Only what is hosted is flushed: of the others no fsync failed, and nothing is gone.
        refused = {one.key for one in self.plane.partitions() if one.log.full_segments()}
        with refusing("fsync"):
            self._runner.run(self.plane.upkeep.flush_full_segments())
        if refused:
            self._unsynced_gone |= {(key, self._shelf._open[key].recovery_point) for key in refused}
            self.crashed, self.crashed_in = 1, incarnation(self.run)
            self.needs_restart = True

    def checkpoint(self) -> None:
        self._runner.run(self.plane.upkeep.checkpoint())

    def retain(self) -> None:
        """Each replica by itself deletes what its topic keeps no longer."""
        for key in self.replicas:
            self._remember(key)
        before = {one.key: looked_at(one.log) for one in self.plane.partitions()}
        self._runner.run(self.plane.upkeep.apply_retention())
        for one in self.plane.partitions():
            text = why_not_obeyed(one, before[one.key], self.wall_ms())
            # A flipped bit may lie in a time: who runs on has read it before.
            if text and not self.is_flipped:
                raise Diverged(text)

    # ------------------------------------------------------------------------------ link

    def _hello(self) -> BrokerHello:
        self.confessed |= frozenset(self.plane.damaged)
        return BrokerHello(
            broker_id=self.broker_id,
            incarnation=incarnation(self.run),
            endpoints={"client": f"127.0.0.1:{self.broker_id}", "replication": f"127.0.0.1:{self.broker_id}"},
            broker_epoch=self.broker_epoch,
            lost_tail=self.data.lost_tail,
            unusable_logs=self.plane.troubles.whole(),
            damaged_logs=self.plane.damaged,
            # An old controller refuses who states more than it knows; here it must be harmless without that.
            metadata_version=0,
            protocol=LINK_PROTOCOL,
        )

    def _accepted(self, frame: HelloAccepted) -> None:
        self.broker_epoch = frame.broker_epoch
        self.data.registered(frame.cluster_id)
        self.plane.confessed()
        self.plane.know_levels({}, self.view.cluster_configs, frame.static_configs)

    def _state_unusable(self) -> None:
        self.needs_restart |= any(replica.failed for replica in self.replicas.values())
        if self.link is not None:
            news = self.plane.troubles.news()
            self.link.say_to_controller(UnusableLogs(failed=news.failed, usable=news.usable))

    def _perform(self, heeded: Heeded, now: Instant) -> None:
        self.plane.know_topics(heeded.topics)
        if self._metadata.know_brokers():
            self.plane.know_live(self._metadata.live)
        self.plane.broker_epochs = {b: row.broker_epoch for b, row in self.view.brokers.items()}
        self._metadata.forget(heeded.deleted_topics, heeded.shrunk_topics)
        self.plane.view = self._metadata.renew("cluster-1", None)
        for key in heeded.deleted:
            self.plane.stop(*key, is_deleted=True)
        for row in heeded.rows:
            self.plane.obey(row, from_snapshot=heeded.from_snapshot)
        for answer in heeded.answers:
            self.plane.hear_answer(answer.topic_id, answer.partition, answer.base_version, answer.row)
        for gone in heeded.gone:
            self.plane.stop(*gone)
        for stray in self.view.strays(self.plane.keys_on_disk) if heeded.from_snapshot else ():
            elsewhere = self.view.partitions.get(stray)
            if elsewhere is None or not self.plane.obey(elsewhere, from_snapshot=True):
                self.plane.stop(*stray)
        self.cuts.look()
        self.plane.led_epochs.save()
        self.plane.forget_topics(heeded.deleted_topics)

    def _obey(self, row: PartitionRow, now: Instant, from_snapshot: bool) -> None:
        raise NotImplementedError("rows reach the data plane")

    # ------------------------------------------------------------------------------ data

    def request(self, key: Any) -> Sent | None:  # type: ignore[override]
        """The next fetch to the leader of `key`, with all that is followed there."""
        hosted = self.plane.hosted(*key)
        position = hosted.replica.next_fetch() if hosted is not None else None
        if position is None or self.cuts.holds(PartitionKey(*key)):
            return None
        positions = {
            one.key: asked
            for one in self.plane.partitions()
            if (asked := one.replica.next_fetch()) is not None
            and asked.leader == position.leader
            and one.key not in self._resting
            and not self.cuts.holds(one.key)
        }
        self._resting -= {one.key for one in self.plane.partitions() if one.replica.leader == position.leader}
        connection = self.connections.get(position.leader)
        if connection is None or connection.is_waiting:
            # The answer before never came: the connection was given up, and its session with it.
            connection = self.connections[position.leader] = Connection(self.broker_id, self.broker_epoch)
        frame = connection.ask(positions)
        return Sent(self.broker_id, PartitionKey(*key), position, frame, connection)

    def serve(self, request: Any, now: Instant) -> Answered | None:  # type: ignore[override]
        pieces: list[Any] = []
        reply = SimpleNamespace(send=lambda *sent: pieces.extend(sent), identity=request.follower)
        frame = memoryview(request.frame)
        self._handler.handle(read_request_header(frame), frame, reply)  # type: ignore[arg-type]
        data = b"".join(map(bytes_of, pieces))
        keys = () if self.below is None else request.connection.keys
        held = {key: list(self.logs[key].records) for key in keys if key in self.logs}
        return Answered(request.key, request.position, data, request.connection, held=held)

    def _writes(self, key: Any) -> tuple[int, int, int]:
        replica = self.replicas.get(key)
        base_epoch = replica.row.base_epoch if replica is not None and replica.row is not None else 0
        return self.broker_id, self.run, mark_of(key[0], base_epoch)

    def trim(self, key: Any) -> None:
        """The leader deletes some of what is committed, wherever a batch begins or ends."""
        hosted = self.plane.hosted(*key)
        assert hosted is not None
        self._remember(key)
        with suppress(StorageFailed):
            hosted.delete_before(self._rng.randint(hosted.log.start_offset, hosted.high_watermark), 0)

    def append(self, key: Any, value: int) -> None:
        """The leader stores the producer's next batch, or says why not."""
        hosted = self.plane.hosted(*key)
        assert hosted is not None
        batch = bytearray(self.batch_of(value, *self._writes(key)))
        is_too_large = len(batch) > hosted.log.settings.max_message_bytes
        closed = closed_by_age(hosted.log, batches.read_header(batch).max_timestamp_ms)
        with suppress(StorageFailed, *((AppendRefused,) if is_too_large else ())):
            hosted.append_produced(memoryview(batch), self.wall_ms())
            if closed is not None and not self.is_flipped and hosted.log._segments.active is closed:
                raise Diverged("a segment took a batch that is too young for it")


def _nobody_is_rung() -> None:
    """It pings when the walk says so."""
