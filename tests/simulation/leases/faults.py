"""This room draws one seed's faults: what of the network breaks, who dies or stands still, what heals."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.leases.broker import Broker
from tests.simulation.leases.cluster import Cluster, Place
from tests.simulation.leases.node import ControllersNode
from tests.simulation.leases.wires import BOTH, TO_BROKER, TO_NODE, Path

DIRECTIONS = (frozenset(BOTH), frozenset(BOTH), frozenset({TO_NODE}), frozenset({TO_BROKER}))


class Faults:
    """One fault after the other, by chance. `count`: how many there were."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world, self.chance = cluster, cluster.world, cluster.world.chance
        self.count = 0
        self._kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (8, self._cut_a_node),
            (6, self._cut_a_broker),
            (4, self._part),
            (6, self._mend_some),
            (2, self._mend_all),
        )
        if not cluster.is_slow:
            self._kinds += self._of_processes()

    def _of_processes(self) -> tuple[tuple[int, Callable[[], str]], ...]:
        return (
            (3, self._crash_node),
            (3, self._pause_node),
            (2, self._drain_node),
            (2, self._no_database),
            (2, self._database_stands_still),
            (1, self._database_restarts),
            (2, self._unknown_outcome),
            (1, self._clock_leaps),
            (3, self._crash_broker),
            (3, self._pause_broker),
            (3, self._everybody_starts),
        )

    def unleash(self, chaos_ms: float) -> None:
        """Draw faults over the time to come."""
        gap = 14_000 if self.cluster.is_slow else self.chance.choice((1_500, 5_000, 12_000))
        at = 0.0
        while (at := at + self.chance.expovariate(1 / gap)) < chaos_ms:
            self.world.later(at, self._strike)

    def stand(self) -> None:
        """Everybody runs and has the database; what is cut stays cut, and nothing else breaks."""
        self.world.quiet = True
        self.world.tell("-------- what is cut stays cut --------")
        self.cluster.rows.stands_still = False
        for node in self.cluster.live:
            node.reach_again()
            node.hangs = False
            node.go_on()
            for link in node.database.links:
                link.lose_answer = link.lose_request = False
        for broker in self.cluster.brokers.values():
            broker.go_on()
        for place in self.cluster.places:
            self.cluster.start_node(place)
        for broker_id in self.cluster.broker_ids:
            self.cluster.start_broker(broker_id)
        self.cluster.note_reach()

    def heal(self) -> None:
        """The network lets everything through."""
        self.world.tell("-------- all is mended --------")
        self._mend(self._cut_paths())

    # -- one of them ------------------------------------------------------------------------

    def _strike(self) -> None:
        if self.world.quiet:
            return
        weights = [weight for weight, _ in self._kinds]
        _, kind = self.chance.choices(self._kinds, weights)[0]
        if text := kind():
            self.count += 1
            self.world.tell(text)
            self.cluster.note_reach()

    def _later(self, lengths: tuple[int, ...], action: Callable[[], None]) -> int:
        """After one of these, which is returned."""
        length = self.chance.choice(lengths)

        def over() -> None:
            action()
            self.cluster.note_reach()

        self.world.later(length, over)
        return length

    def _place(self) -> Place:
        """Mostly that of whoever holds the lease."""
        controller = self.cluster.controller
        if controller is not None and self.chance.random() < 0.7:
            return controller.place
        return self.chance.choice(self.cluster.places)

    def _node(self) -> ControllersNode | None:
        node = self._place().node
        return node if node is not None and node.status == "up" else None

    def _broker(self) -> Broker | None:
        up = [one for one in self.cluster.brokers.values() if one.status == "up"]
        return self.chance.choice(up) if up else None

    # -- the network ------------------------------------------------------------------------

    def _cut(self, paths: list[Path]) -> str:
        directions, refuses = self.chance.choice(DIRECTIONS), self.chance.random() < 0.4
        for path in paths:
            path.lose(directions, refuses=refuses)
        how = "is refused" if refuses else "is lost"
        return f"what goes {' and '.join(sorted(directions))} {how}"

    def _cut_a_node(self) -> str:
        """From all brokers, or from some."""
        place, numbers = self._place(), list(self.cluster.broker_ids)
        if self.chance.random() < 0.4:
            numbers = sorted(self.chance.sample(numbers, self.chance.randint(1, len(numbers))))
        how = self._cut([place.paths[one] for one in numbers])
        return f"between {place.name} and brokers {numbers} {how}"

    def _cut_a_broker(self) -> str:
        """From one node, or from some, or from all."""
        broker_id = self.chance.choice(self.cluster.broker_ids)
        places = self.chance.sample(self.cluster.places, self.chance.randint(1, len(self.cluster.places)))
        how = self._cut([place.paths[broker_id] for place in places])
        return f"between broker {broker_id} and {sorted(place.name for place in places)} {how}"

    def _part(self) -> str:
        """Through the middle: each broker is on the side of some nodes alone."""
        nodes = {place.name for place in self.cluster.places if self.chance.random() < 0.5}
        brokers = {one for one in self.cluster.broker_ids if self.chance.random() < 0.5}
        apart = [
            place.paths[one]
            for place in self.cluster.places
            for one in self.cluster.broker_ids
            if (place.name in nodes) != (one in brokers)
        ]
        if not apart:
            return ""
        return f"on one side {sorted(nodes)} and brokers {sorted(brokers)}: {self._cut(apart)}"

    def _cut_paths(self) -> list[Path]:
        paths = [path for place in self.cluster.places for path in place.paths.values()]
        return [path for path in paths if not path.is_whole]

    def _mend(self, paths: list[Path]) -> None:
        for path in paths:
            path.mend()
        self.cluster.note_reach()

    def _mend_some(self) -> str:
        cut = self._cut_paths()
        if not cut:
            return ""
        self._mend(self.chance.sample(cut, self.chance.randint(1, len(cut))))
        return "some paths are mended"

    def _mend_all(self) -> str:
        cut = self._cut_paths()
        self._mend(cut)
        return "all paths are mended" if cut else ""

    # -- nodes ------------------------------------------------------------------------------

    def _crash_node(self) -> str:
        node = self._node()
        if node is None:
            return ""
        is_powered = self.chance.random() < 0.6
        self.cluster.crash(node, is_powered=is_powered)
        return f"{node.name} crashes" if is_powered else f"the machine of {node.name} crashes"

    def _pause_node(self) -> str:
        node = self._node()
        if node is None:
            return ""
        node.pause()
        length = self._later((300, 1_500, 4_000, 9_000), node.go_on)
        return f"{node.name} is stopped for {length} ms"

    def _drain_node(self) -> str:
        node = self._node()
        if node is None or node.drains:
            return ""
        self.cluster.drain(node)
        return f"{node.name} is drained"

    def _clock_leaps(self) -> str:
        node = self._node()
        return "" if node is None else node.leap_by_chance()

    # -- the database -----------------------------------------------------------------------

    def _no_database(self) -> str:
        """One node cannot reach it, and is told so, or hears nothing."""
        node = self._node()
        if node is None:
            return ""
        if self.chance.random() < 0.5:
            node.cut_off()
            return f"{node.name} reaches no database for {self._later(LONG, node.reach_again)} ms"
        node.hangs = True

        def answers() -> None:
            node.hangs = False

        return f"{node.name} hears nothing of the database for {self._later(LONG, answers)} ms"

    def _database_stands_still(self) -> str:
        rows = self.cluster.rows
        rows.stands_still = True

        def goes_on() -> None:
            rows.stands_still = False

        return f"the database stands still for {self._later(LONG, goes_on)} ms"

    def _database_restarts(self) -> str:
        """All connections are gone; it is there at once, or soon."""
        nodes = self.cluster.live
        for node in nodes:
            node.cut_off()

        def there() -> None:
            for node in nodes:
                node.reach_again()

        return f"the database starts again within {self._later((5, 800), there)} ms"

    def _unknown_outcome(self) -> str:
        node = self._node()
        return "" if node is None else node.break_next_commit()

    # -- brokers ----------------------------------------------------------------------------

    def _crash_broker(self) -> str:
        broker = self._broker()
        if broker is None:
            return ""
        is_powered = self.chance.random() < 0.6
        self.cluster.crash_broker(broker, is_powered=is_powered)
        whose = "broker" if is_powered else "the machine of broker"
        return f"{whose} {broker.broker_id} crashes"

    def _pause_broker(self) -> str:
        broker = self._broker()
        if broker is None:
            return ""
        broker.pause()
        return (
            f"broker {broker.broker_id} is stopped for {self._later((1_500, 6_000, 12_000), broker.go_on)} ms"
        )

    def _everybody_starts(self) -> str:
        """Who was to come later comes now."""
        absent = [one for one in self.cluster.broker_ids if one not in self.cluster.brokers]
        for broker_id in absent:
            self.cluster.start_broker(broker_id)
        return f"brokers {absent} are new" if absent else ""


LONG = (300, 2_000, 4_000, 8_000)
