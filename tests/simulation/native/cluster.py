"""This room is one seed's cast: owners that follow each other, processes, and checks across them."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from uuid import UUID

from coordinator.core import rebalance
from coordinator.core.settings import GroupSettings
from groups.core import records
from groups.core.state import GroupRows
from muster.client.core.session import Stage
from muster.kernel.ids import TopicName
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition
from tests.simulation.native.checks import Checks
from tests.simulation.native.network import Connection
from tests.simulation.native.node import Node
from tests.simulation.native.operators import Operators
from tests.simulation.native.process import Process
from tests.simulation.native.world import World

EVERYTHING = (TopicCount("orders"), TopicCount("clicks"))


class Cluster:
    """The world and everybody in it."""

    def __init__(self, seed: int, settings: GroupSettings | None = None) -> None:
        self.world = World(seed, settings)
        self.checks = Checks(self)
        self.operators = Operators(self)
        self.processes: list[Process] = []
        self.nodes: list[Node] = []
        self.progress: Counter[Partition] = Counter()
        self.last_to_fetch: dict[Partition, Process] = {}
        self.kept = 0
        self._numbers = 0
        self._connections = 0
        self._tokens = 0
        self._removed: set[tuple[UUID, int]] = set()
        self.world.woken = self.woken
        for _ in range(2):
            self.start_node()

    # -- nodes ------------------------------------------------------------------------------

    @property
    def owner(self) -> Node | None:
        """Whoever holds the lease, by the database."""
        run, _ = self.world.rows.lease
        return next((node for node in self.nodes if node.status != "over" and node.keeper.run == run), None)

    def start_node(self) -> None:
        """One more process; its name was never used before."""
        node = Node(self, len(self.nodes) + 1)
        self.nodes.append(node)
        self.world.tell(f"  {node.name} starts")

    def crash(self, node: Node) -> None:
        """It dies, and after a while another starts in its place."""
        node.crash()
        self.world.later(self.world.chance.uniform(200, 5_000), self.start_node)

    def woken(self, name: str, key: str = "") -> None:
        """A notification reaches every process."""
        for node in self.nodes:
            node.woken(name, key)

    def drain(self, node: Node) -> None:
        """It gives its leases away and ends, and after a while another starts in its place."""
        node.drain(lambda: None if node.status == "over" else self.crash(node))

    def next_number(self) -> int:
        """Names requests, connections and waiters of whoever is no member."""
        self._numbers += 1
        return self._numbers

    def partition(self, topic: str, number: int) -> Partition:
        """As whoever is no member finds it by name."""
        return Partition(topic, self.world.layouts[TopicName(topic)].topic_id, number)

    # -- members ----------------------------------------------------------------------------

    def start(self, member_id: str, topic_count: tuple[TopicCount, ...] = EVERYTHING) -> Process:
        """A new process under this consumer id, with a token of its own."""
        self._tokens += 1
        process = Process(self, member_id, f"token-{self._tokens}", topic_count)
        self.processes.append(process)
        return process

    def alive(self) -> list[Process]:
        return [process for process in self.processes if not process.gone]

    def open_connection(self, process: Process) -> Connection | None:
        """Discovery and connect; None when nobody listens."""
        serving = [node for node in self.nodes if node.status != "over" and node.epoch]
        if not serving:
            return None
        node = max(serving, key=lambda node: node.epoch)
        self._connections += 1
        connection = Connection(self.world, f"{process.member_id}/{self._connections}", node, process)
        node.open(connection)
        return connection

    def hears_the_present_owner(self, connection: Connection | None) -> bool:
        return connection is not None and connection.owner is self.owner

    def grow(self, topic: str) -> None:
        """The topic gets one more partition."""
        before = self.world.layouts[TopicName(topic)]
        number = before.partition_count
        grown = replace(before, partition_count=number + 1)
        if (before.topic_id, number) in self._removed:
            self._numbers += 1
            grown = replace(grown, added_again=(*before.added_again, (number, self._numbers)))
            self.world.added_again_at[before.topic_id, number] = self.world.now
        self.world.layouts[before.name] = grown
        self._tell_of_topics()

    def shrink(self, topic: str) -> None:
        """The topic loses its last partition."""
        before = self.world.layouts[TopicName(topic)]
        number = before.partition_count - 1
        self._removed.add((before.topic_id, number))
        others = tuple(one for one in before.added_again if one[0] != number)
        self.world.layouts[before.name] = replace(before, partition_count=number, added_again=others)
        self._tell_of_topics()

    def _tell_of_topics(self) -> None:
        """A wake-up may be lost where that is looked at: nodes look by themselves every few seconds."""
        if not self.world.is_ageing or self.world.chance.random() < 0.5:
            self.woken("topics")

    # -- what must never be -----------------------------------------------------------------

    def consumed(self, partition: Partition) -> None:
        self.progress[partition] += 1

    def check_fetchers(self) -> None:
        """No two may fetch one partition."""
        seen: dict[Partition, Process] = {}
        for process in self.processes:
            if process.gone:
                continue
            for partition in process.fetchers:
                if process.may_be_fetching(partition):
                    other = seen.setdefault(partition, process)
                    self.world.forbid(
                        other is not process, f"{other.member_id} and {process.member_id} fetch {partition}"
                    )

    def check_expiry(self, member_id: str, token_hash: str) -> None:
        """The coordinator ends a session only when the member has stopped by its own clock, or is gone."""
        for process in self.alive():
            token = hashlib.sha256(process.session.wishes.token.encode()).hexdigest()
            if process.member_id == member_id and token == token_hash:
                self.world.forbid(
                    any(process.may_be_fetching(partition) for partition in process.fetchers),
                    f"the session of {member_id} was ended while it may fetch",
                )

    def check_running(self, record: records.PartitionsRunning, rows: GroupRows) -> None:
        """A row runs only when its member was told of the generation that gave it."""
        for process in self.alive():
            token = hashlib.sha256(process.session.wishes.token.encode()).hexdigest()
            member = rows.members.get(record.member_id)
            if process.member_id != record.member_id or member is None or member.token_hash != token:
                continue
            for tenure in rows.owned.get(record.member_id, {}).values():
                self.world.forbid(
                    tenure.running and tenure.since_generation > process.session.generation,
                    f"a row of {record.member_id} runs before it was told",
                )

    # -- how it must end --------------------------------------------------------------------

    def why_unsettled(self) -> str:
        """Empty when the group is as it must be after the last fault."""
        owner = self.owner
        if owner is None or owner.status != "up" or not owner.service.accepting:
            return "no owner"
        if owner.state is None:
            # Whoever died before it could register leaves no group.
            return "the group is not loaded" if self.alive() or self.world.rows.rows.version else ""
        memory, rows = owner.state.memory, owner.state.rows
        if memory.attempt or memory.wanted or memory.finished or rows.handler_asked:
            return "a rebalance is under way"
        if unanswered := self.operators.unanswered():
            return f"nobody answered {unanswered}"
        if orphans := self.checks.ageing.orphans():
            return f"offsets of removed partitions stay: {orphans}"
        by_id = {process.member_id: process for process in self.alive()}
        if by_id.keys() != rows.members.keys():
            return f"members are {sorted(rows.members)}, alive are {sorted(by_id)}"
        for member_id, process in by_id.items():
            owned = rows.owned.get(member_id, {})
            if process.session.stage is not Stage.REGISTERED:
                return f"{member_id} is not registered"
            if process.fetchers.keys() != owned.keys() or process.session.fetching.keys() != owned.keys():
                return f"{member_id} fetches other than its rows"
            if process.stands_by != rows.standbys.get(member_id, frozenset()):
                return f"{member_id} stands by for other than its rows"
            if not all(tenure.running for tenure in owned.values()):
                return f"a row of {member_id} is not running"
        return self._why_incomplete(rows)

    def _why_incomplete(self, rows: GroupRows) -> str:
        owned = {partition for tenures in rows.owned.values() for partition in tenures}
        wanted = set()
        for name, layout in self.world.layouts.items():
            if any(self._reads(process, name) for process in self.alive()):
                wanted |= {
                    Partition(name, layout.topic_id, number) for number in range(layout.partition_count)
                }
        if owned != wanted:
            return f"owned are {len(owned)} partitions, wanted {len(wanted)}"
        return rebalance.compute(rows, self.world.layouts, self.world.surroundings.matches).why

    def _reads(self, process: Process, topic: str) -> bool:
        return any(
            self.world.surroundings.matches(entry.topic, topic) if entry.is_pattern else entry.topic == topic
            for entry in process.session.wishes.topic_count
        )
