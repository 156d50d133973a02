"""This room draws one seed's faults: what breaks, when, and how it is made good at the end."""

from __future__ import annotations

from collections.abc import Callable

from muster.client.core.session import Stage
from muster.kernel.ids import TopicName
from muster.messages.member import TopicCount
from tests.simulation.native.cluster import EVERYTHING, Cluster
from tests.simulation.native.node import Node
from tests.simulation.native.process import Process

CAST = ("ann", "ben", "cleo", "dora")
SUBSCRIPTIONS = (
    EVERYTHING,
    EVERYTHING,
    (TopicCount("orders"),),
    (TopicCount("clicks", threads=2),),
    (TopicCount("(orders|clicks)", is_pattern=True),),
    (TopicCount("orders"), TopicCount("payments")),
)


class Faults:
    """One fault after the other, by chance."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world, self.chance = cluster, cluster.world, cluster.world.chance
        self._kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (5, self._join),
            (3, self._crash_member),
            (4, self._break_connection),
            (3, self._half_break),
            (5, self._pause_member),
            (2, self._leave),
            (4, self._mute),
            (3, self._restart),
            (1, self._impostor),
            (3, self._change_subscription),
            (3, self._crash_node),
            (3, self._pause_node),
            (3, self._cut_off),
            (4, self._our_mistake),
            (4, self._unknown_outcome),
            (1, self._clock_leaps),
            (6, self._late_commit),
            (4, self._commit),
            (1, self._out_of_range),
            (1, self._grow),
        )

        if self.world.is_operated:
            operators = self.cluster.operators
            self._kinds += (
                (8, operators.ask_something),
                (4, operators.use_a_tool),
                (2, operators.knock),
                (4, self._everybody_away),
            )

        if self.world.is_watchful:
            self._kinds += ((6, self._close_door),)

        if self.world.is_ageing:
            self._kinds += (
                (4, self._drain_node),
                (8, self._everybody_goes),
                (6, self._remake),
            )

    def unleash(self, chaos_ms: float) -> None:
        """Draw faults over the time to come; heat says how dense they are."""
        gap = self.chance.choice((400, 1_200, 4_000))
        heat = self.chance.choice((0.0, 0.3, 0.8))
        self.world.when_it_matters = lambda: self._strike_soon(heat)
        at = 0.0
        while (at := at + self.chance.expovariate(1 / gap)) < chaos_ms:
            self.world.later(at, self._strike)

    def heal(self) -> None:
        """The last fault is over: everybody who is paused wakes, nothing new breaks."""
        cluster, world = self.cluster, self.world
        world.quiet = True
        world.tell("-------- quiet --------")
        for process in cluster.alive():
            process.unmute()
            process.wake()
        for node in cluster.nodes:
            node.reach_again()
            node.fails = 0
            node.loses_words = False
            node.go_on()
        seen: set[str] = set()
        for process in cluster.alive():
            if process.member_id in seen:
                process.crash()
            seen.add(process.member_id)

    def _strike_soon(self, heat: float) -> None:
        """An attempt opened, closed or failed: a fault now meets it half-way."""
        if self.chance.random() < heat / 6:
            self.world.tell(self._our_mistake())
        elif self.chance.random() < heat:
            self.world.later(self.chance.choice((0.5, 3, 10, 40, 200)), self._strike)

    def _strike(self) -> None:
        if self.world.quiet:
            return
        weights = [weight for weight, _ in self._kinds]
        _, kind = self.chance.choices(self._kinds, weights)[0]
        text = kind()
        if text:
            self.world.tell(text)

    def _someone(self, *, up: bool = True) -> Process | None:
        processes = [one for one in self.cluster.alive() if not up or one.status == "up"]
        return self.chance.choice(processes) if processes else None

    def _join(self) -> str:
        present = {process.member_id for process in self.cluster.alive()}
        absent = [name for name in CAST if name not in present]
        if not absent:
            return ""
        self.cluster.start(absent[0], self.chance.choice(SUBSCRIPTIONS))
        return f"{absent[0]} joins"

    def _crash_member(self) -> str:
        process = self._someone(up=False)
        if process is None:
            return ""
        process.crash()
        return f"{process.member_id} crashes"

    def _restart(self) -> str:
        present = {process.member_id for process in self.cluster.alive()}
        dead = [process.member_id for process in self.cluster.processes if process.member_id not in present]
        if not dead:
            return ""
        member_id = self.chance.choice(dead)
        self.cluster.start(member_id, self.chance.choice(SUBSCRIPTIONS))
        return f"{member_id} starts again"

    def _break_connection(self) -> str:
        process = self._someone()
        if process is None:
            return ""
        process.break_connection()
        return f"the connection of {process.member_id} breaks"

    def _half_break(self) -> str:
        process = self._someone()
        if process is None:
            return ""
        process.lose_voice(self.chance.choice((1_000, 5_000, 9_000)))
        return f"{process.member_id} is not heard any more"

    def _pause_member(self) -> str:
        process = self._someone()
        if process is None:
            return ""
        process.pause()
        length = self.chance.choice((200, 2_000, 7_000, 12_000))
        self.world.later(length, process.wake)
        return f"{process.member_id} is paused for {length} ms"

    def _everybody_away(self) -> str:
        """Long enough for their sessions to end; meanwhile offsets are changed."""
        length = self.chance.choice((9_000, 14_000))
        for process in self.cluster.alive():
            if process.status == "up":
                process.pause()
                self.world.later(length, process.wake)
        for _ in range(3):
            self.world.later(self.chance.uniform(7_500, length), self._change_offsets)
        return f"everybody is away for {length} ms"

    def _everybody_goes(self) -> str:
        """They leave, die or are stopped, mostly for longer than offsets are kept; then they come again."""
        length = self.chance.choice((4_000, 9_000, 16_000, 16_000))
        for process in self.cluster.alive():
            if process.status != "up":
                continue
            if self.chance.random() < 0.3:
                process.pause()
                self.world.later(length, process.wake)
                continue
            if process.session.stage is Stage.REGISTERED and self.chance.random() < 0.5:
                process.leave()
            else:
                process.crash()
            self.world.later(length + self.chance.uniform(0, 1_000), self._come_again)
        return f"everybody goes for {length} ms"

    def _come_again(self) -> None:
        if not self.world.quiet:
            self.world.tell(self._restart())

    def _remake(self) -> str:
        """Who fetches there finds the log of another partition."""
        topic = self.chance.choice(("orders", "clicks"))
        before = self.world.layouts[TopicName(topic)]
        if not before.partition_count:
            return ""
        number, length = before.partition_count - 1, self.chance.choice((0, 50, 1_500, 8_000))
        self.cluster.shrink(topic)
        self.world.later(length, lambda: self._add_again(topic, number))
        return f"{topic}-{number} is removed, to be added again in {length} ms"

    def _add_again(self, topic: str, number: int) -> None:
        if self.world.layouts[TopicName(topic)].partition_count != number:
            return
        self.cluster.grow(topic)
        partition = self.cluster.partition(topic, number)
        for process in self.cluster.alive():
            if process.status == "up" and partition in process.fetchers:
                process.out_of_range(partition)

    def _drain_node(self) -> str:
        """Sometimes the database goes just before, or while it gives its leases away."""
        node = self._node()
        if node is None:
            return ""
        dark = self.chance.random()
        if dark < 0.2:
            self.world.tell(self._cut_off())
        elif dark < 0.4:
            self.world.later(self.chance.choice((1, 5, 50)), lambda: self.world.tell(self._cut_off()))
        self.cluster.drain(node)
        return f"{node.name} is drained"

    def _change_offsets(self) -> None:
        operators = self.cluster.operators
        if not self.world.quiet:
            kinds = (operators.reset_offsets, operators.commit_from_outside, operators.knock)
            self.world.tell(self.chance.choice(kinds)())

    def _leave(self) -> str:
        process = self._someone()
        if process is None or process.session.stage is not Stage.REGISTERED:
            return ""
        process.leave()
        return f"{process.member_id} leaves"

    def _mute(self) -> str:
        process = self._someone()
        if process is None or process.mute:
            return ""
        process.mute = True
        length = self.chance.choice((1_000, 6_000, 20_000))
        self.world.later(length, process.unmute)
        return f"{process.member_id} is mute for {length} ms"

    def _impostor(self) -> str:
        process = self._someone()
        if process is None:
            return ""
        impostor = self.cluster.start(process.member_id)
        self.world.later(self.chance.uniform(500, 4_000), impostor.crash)
        return f"another process calls itself {process.member_id}"

    def _change_subscription(self) -> str:
        process = self._someone()
        if process is None:
            return ""
        topic_count = self.chance.choice(SUBSCRIPTIONS)
        process.subscribe(topic_count)
        return f"{process.member_id} subscribes to {[entry.topic for entry in topic_count]}"

    def _node(self) -> Node | None:
        """Mostly whoever holds the lease."""
        up = [node for node in self.cluster.nodes if node.status == "up"]
        owner = self.cluster.owner
        if owner in up and self.chance.random() < 0.8:
            return owner
        return self.chance.choice(up) if up else None

    def _crash_node(self) -> str:
        node = self._node()
        if node is None:
            return ""
        self.cluster.crash(node)
        return f"{node.name} crashes"

    def _close_door(self) -> str:
        """Its peers hear that nobody listens, though it lives; sometimes it loses the database as well."""
        node = self._node()
        if node is None:
            return ""
        node.close_door()
        if self.chance.random() < 0.3:
            node.cut_off()
            self.world.later(self.chance.choice((50, 300)), node.reach_again)
        return f"{node.name} closes its door"

    def _pause_node(self) -> str:
        node = self._node()
        if node is None:
            return ""
        node.pause()
        length = self.chance.choice((150, 300, 1_500, 4_000, 9_000))
        self.world.later(length, node.go_on)
        return f"{node.name} is stopped for {length} ms"

    def _cut_off(self) -> str:
        """PostgreSQL is out of reach of one node, or of all."""
        node = self._node()
        if node is None:
            return ""
        nodes = (
            [node]
            if self.chance.random() < 0.4
            else [one for one in self.cluster.nodes if one.status != "over"]
        )
        for one in nodes:
            one.cut_off()
        length = self.chance.choice((300, 1_500, 7_000))
        for one in nodes:
            self.world.later(length, one.reach_again)
        return f"{' and '.join(one.name for one in nodes)} reach no database for {length} ms"

    def _our_mistake(self) -> str:
        node = self.cluster.owner
        if node is None:
            return ""
        if self.chance.random() < 0.5:
            node.loses_words = True
        else:
            node.fails = self.chance.choice((1, 2, 3))
        return f"a mistake in the next turn of {node.name}"

    def _unknown_outcome(self) -> str:
        node = self.cluster.owner
        return "" if node is None else node.break_next_commit()

    def _clock_leaps(self) -> str:
        node = self._node()
        return "" if node is None else node.leap_by_chance()

    def _late_commit(self) -> str:
        process = self._someone()
        if process is not None:
            process.commit_in_hand()
        return ""

    def _commit(self) -> str:
        process = self._someone()
        if process is not None:
            process.commit()
        return ""

    def _out_of_range(self) -> str:
        process = self._someone()
        if process is None or not process.fetchers:
            return ""
        partition = self.chance.choice(sorted(process.fetchers))
        process.out_of_range(partition)
        return f"{partition} is out of range for {process.member_id}"

    def _grow(self) -> str:
        topic = self.chance.choice(("orders", "clicks"))
        self.cluster.grow(topic)
        return f"{topic} grows"
