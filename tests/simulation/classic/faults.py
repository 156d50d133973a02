"""This room draws one seed's faults of nodes, database and Kafka clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tests.simulation.classic.client import REBALANCE_MS, Client
from tests.simulation.classic.cluster import Cluster
from tests.simulation.classic.reader import NEVER_READ
from tests.simulation.native import faults as native

CAST = ("ann", "ben", "cleo", "pod-0", "pod-1")


class Faults(native.Faults):
    """What native faults break of nodes, and what people do to clients."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cast(Any, cluster))
        self.kafka = cluster
        self._kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (6, self._start),
            (3, self._die),
            (4, self._leave_group),
            (4, self._break),
            (4, self._pause),
            (3, self._hang),
            (2, self._knock),
            (3, self._rejoin),
            (2, self._roll),
            (2, self._second_of_an_instance),
            (3, self._commit_of_old),
            (4, self.kafka.operators.ask_something),
            (3, self.kafka.operators.use_a_tool),
            (1, self.kafka.operators.visit),
            (1, self._make_anew),
            (3, self._crash_node),
            (3, self._pause_node),
            (2, self._drain_node),
            (3, self._cut_off),
            (4, self._our_mistake),
            (4, self._unknown_outcome),
            (1, self._clock_leaps),
        )

    def _strike_soon(self, heat: float) -> None:
        if not self.world.quiet:
            super()._strike_soon(heat)

    def heal(self) -> None:
        """The last fault is over."""
        self.world.quiet = True
        self.world.tell("-------- quiet --------")
        for node in self.kafka.nodes:
            node.reach_again()
            node.fails, node.loses_words = 0, False
            node.go_on()
        seen: set[str] = set()
        for client in reversed(self.kafka.alive()):
            client.paused = False
            if client.name in seen:
                client.die()
            seen.add(client.name)

    def _client(self) -> Client | None:
        alive = self.kafka.alive()
        return self.chance.choice(alive) if alive else None

    def _start(self) -> str:
        absent = [name for name in CAST if name not in {one.name for one in self.kafka.alive()}]
        if not absent:
            return ""
        name = self.chance.choice(absent)
        self.kafka.start(name, name if name.startswith("pod") else None)
        return f"{name} starts"

    def _die(self) -> str:
        client = self._client()
        if client is None:
            return ""
        client.die()
        return f"{client.name} dies"

    def _leave_group(self) -> str:
        client = self._client()
        if client is None:
            return ""
        client.leave()
        return f"{client.name} leaves"

    def _break(self) -> str:
        client = self._client()
        if client is None:
            return ""
        client.break_connection()
        return f"the connection of {client.name} breaks"

    def _pause(self) -> str:
        client = self._client()
        if client is None:
            return ""
        client.paused = True
        length = self.chance.choice((500, 3_000, 9_000))
        self.world.later(length, lambda: setattr(client, "paused", False))
        return f"{client.name} is paused for {length} ms"

    def _hang(self) -> str:
        client = self._client()
        if client is None or client.mute:
            return ""
        client.hangs()
        length = self.chance.choice((3_000, REBALANCE_MS + 3_000))
        self.world.later(length, client.goes_on)
        return f"{client.name} hangs for {length} ms"

    def _knock(self) -> str:
        self.kafka.start("dan", None).knocks = True
        return "dan asks for an id"

    def _rejoin(self) -> str:
        client = self._client()
        if client is None:
            return ""
        client.changes_its_mind()
        return f"{client.name} subscribes to something else"

    def _commit_of_old(self) -> str:
        client = self._client()
        if client is None:
            return ""
        client.reader.commit_as_of_old()
        return f"a commit of {client.name} that lay about is sent"

    def _make_anew(self) -> str:
        self.kafka.make_anew(NEVER_READ)
        return f"the topic {NEVER_READ} is made anew"

    def _roll(self) -> str:
        for client in self.kafka.alive():
            client.strategies = ["sticky", "range"]
        return "a strategy is rolled out"

    def _second_of_an_instance(self) -> str:
        pods = [one for one in self.kafka.alive() if one.instance]
        if not pods:
            return ""
        twin = self.kafka.start(self.chance.choice(pods).name, self.chance.choice(pods).instance)
        return f"another {twin.instance} starts"
