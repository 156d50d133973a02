"""This room is what chaos does to replicas that move: somebody dies, at each step of the way.

The steps: it is asked for, and the new replica sleeps; it copies, so slowly that it cannot get there; it may
copy as fast as it can, and is let in; the switch is written, and not everybody was told.
"""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.acceptance.chaos_cluster import FOUR, TOPICS
from tests.acceptance.chaos_deeds import Deeds

RATE: Final = "follower.replication.throttled.rate"
SLOW_BYTES: Final = "4096"
"""A second: less than is written."""

LET_IN_WITHIN_S: Final = 0.4
"""So long about it takes to copy the rest."""


class Move(NamedTuple):
    """One partition on its way."""

    topic: str
    number: int
    new: str
    leaving: str
    origin: tuple[int, ...]
    target: tuple[int, ...]


class Moves(Deeds):
    """What is done to moves."""

    def move_and_kill_leader_at_each_step(self) -> None:
        move = self._chosen()
        for _ in self._steps(move):
            self._kill_broker(self._cluster.wait_led(move.topic, move.number))

    def move_and_kill_new_replica_at_each_step(self) -> None:
        move = self._chosen()
        for _ in self._steps(move):
            self._kill_broker(move.new)

    def move_and_kill_leaving_replica_at_each_step(self) -> None:
        move = self._chosen()
        for _ in self._steps(move):
            self._kill_broker(move.leaving)

    def move_and_kill_staying_replica_at_each_step(self) -> None:
        move = self._chosen()
        for _ in self._steps(move):
            staying = set(move.origin) & set(move.target)
            self._kill_broker(f"broker-{self._dice.choice(sorted(staying))}")

    def move_and_kill_controller_at_each_step(self) -> None:
        for _ in self._steps(self._chosen()):
            self._kill_controller()

    def move_and_kill_other_node_at_each_step(self) -> None:
        for _ in self._steps(self._chosen()):
            controller = self._cluster.controller()
            other = next(name for name in self._cluster.nodes if name != controller)
            self._kill(other)
            self._cluster.again(other)

    def move_and_kill_controller_and_leader_at_the_switch(self) -> None:
        """Both are gone before anybody can be told."""
        move = self._chosen()
        *_, _switched = self._steps(move)
        controller, leader = self._cluster.controller(), self._cluster.leader(move.topic, move.number)
        self._kill(controller)
        self._kill(leader)
        self._cluster.wait_led_by_another(leader)
        self._start_all()

    def move_and_cancel(self) -> None:
        """The leader dies between; the partition is where it was."""
        move = self._chosen()
        self._cluster.process(move.new).pause()
        self._ask_for(move, move.target)
        leader = self._cluster.leader(move.topic, move.number)
        self._kill(leader)
        self._cluster.wait_led_by_another(leader)
        self._ask_for(move, None, leader)
        self._cluster.again(move.new)
        self._cluster.again(leader)
        assert tuple(self._cluster.partitions(move.topic)[move.number]["assigned"]) == move.origin

    # ------------------------------------------------------------------------------ the way

    def _chosen(self) -> Move:
        """Sometimes the leader goes, sometimes a follower."""
        topic, number = self._place()
        origin = tuple(self._cluster.partitions(topic)[number]["assigned"])
        new = next(broker for broker in FOUR if broker not in origin)
        goes = self._dice.choice(origin)
        target = tuple(new if broker == goes else broker for broker in origin)
        return Move(topic, number, f"broker-{new}", f"broker-{goes}", origin, target)

    def _steps(self, move: Move) -> Iterator[str]:
        """Where the partition is; whoever is hurt there is whole before the next step."""
        self._cluster.process(move.new).pause()
        self._ask_for(move, move.target)
        yield "asked for"
        self._cluster.again(move.new)
        self._others_are_whole(move, "when it was asked for")
        self._set_config(move.new, RATE, SLOW_BYTES)
        self._cluster.await_true(lambda: self._copied(move), "the new replica copies")
        yield "copying"
        self._others_are_whole(move, "while it was copied")
        self._set_config(move.new, RATE, None)
        time.sleep(self._dice.uniform(0, LET_IN_WITHIN_S))
        yield "let in"
        self._others_are_whole(move, "when it was let in")
        self._cluster.await_true(lambda: self._assigned(move) == move.target, "it has moved")
        yield "switched"

    def _assigned(self, move: Move) -> tuple[int, ...]:
        return tuple(self._cluster.partitions(move.topic)[move.number]["assigned"])

    def _copied(self, move: Move) -> bool:
        """The new replica holds something."""
        return bool(self._cluster.logs(move.topic, move.number).get(int(move.new.removeprefix("broker-"))))

    def _others_are_whole(self, move: Move, what: str) -> None:
        """Everybody is there and in sync but for the new replica, and records are written."""
        self._cluster.await_true(self._cluster.everybody_serves, f"everybody serves, hurt {what}")
        new = int(move.new.removeprefix("broker-"))

        def are_in_sync() -> bool:
            rows = [row for topic in TOPICS for row in self._cluster.partitions(topic).values()]
            return all(set(row["isr"]) | {new} >= set(row["assigned"]) for row in rows)

        self._cluster.await_true(are_in_sync, f"the others are in sync, hurt {what}")
        self._account.wait_goes_on(f"hurt {what}", records=5)

    def _kill_broker(self, name: str) -> None:
        """And start it again when its partitions are led by others."""
        self._kill(name)
        self._cluster.wait_led_by_another(name)
        self._cluster.again(name)

    def _kill_controller(self) -> None:
        first = self._cluster.controller()
        self._kill(first)
        self._cluster.await_true(
            lambda: self._cluster.controller() not in ("", first), "another node is the controller"
        )
        self._cluster.again(first)

    def _ask_for(self, move: Move, target: tuple[int, ...] | None, *dead: str) -> None:
        """At any door but of whoever cannot answer, as the new replica is paused; None: cancel."""
        self._ask_to_move(move.topic, move.number, target, move.new, *dead)
