"""This room is what chaos does: each deed hurts one thing, and returns when everything is whole again."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Final

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from tests.acceptance.chaos_cluster import FOUR, PARTITIONS, TOPICS, ChaosCluster
from tests.acceptance.chaos_records import Account
from tests.acceptance.cut_links import Cut

SHORT_NAP_S: Final = 1.0
"""Shorter than a broker's session and a lease: whoever sleeps so long is not missed."""


class Chaos:
    """One seed's deeds on one cluster; `say` tells what is done."""

    def __init__(
        self, cluster: ChaosCluster, account: Account, seed: int, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._account = account
        self._dice = Random(seed)
        self._say = say

    def play(self, names: Sequence[str]) -> None:
        """These deeds, in an order of the seed's own."""
        order = list(names)
        self._dice.shuffle(order)
        for name in order:
            began = time.monotonic()
            DEEDS[name](self)
            self._cluster.proxies.mend()
            self._cluster.wait_whole(f"after: {name}")
            self._account.wait_goes_on(f"after: {name}")
            self._say(f"{name}: whole again after {time.monotonic() - began:.1f} s")

    def _place(self) -> tuple[str, int]:
        """Some partition."""
        return self._dice.choice(TOPICS), self._dice.randrange(PARTITIONS)

    def _kill(self, name: str) -> None:
        self._cluster.process(name).kill()

    # ------------------------------------------------------------------------------ one process

    def kill_leader(self) -> None:
        leader = self._cluster.leader(*self._place())
        self._kill(leader)
        self._cluster.wait_led_by_another(leader)
        self._account.wait_goes_on("without the leader")
        self._cluster.again(leader)

    def kill_leader_and_start_it_at_once(self) -> None:
        leader = self._cluster.leader(*self._place())
        self._kill(leader)
        self._cluster.again(leader)

    def kill_follower(self) -> None:
        follower = self._cluster.follower(*self._place())
        self._kill(follower)
        self._account.wait_goes_on("without a follower")
        self._cluster.again(follower)

    def stop_leader(self) -> None:
        """It wakes up believing that it leads."""
        leader = self._cluster.leader(*self._place())
        self._cluster.process(leader).pause()
        self._cluster.wait_led_by_another(leader)
        self._account.wait_goes_on("while the leader sleeps")
        self._cluster.again(leader)

    def nap_of_leader(self) -> None:
        leader = self._cluster.leader(*self._place())
        self._cluster.process(leader).pause()
        time.sleep(SHORT_NAP_S)
        self._cluster.again(leader)

    def stop_follower(self) -> None:
        """Longer than a follower may lag: it leaves the ISR and comes back."""
        topic, number = self._place()
        follower = self._cluster.follower(topic, number)
        asleep = int(follower.removeprefix("broker-"))
        self._cluster.process(follower).pause()
        self._cluster.await_true(
            lambda: asleep not in self._cluster.partitions(topic)[number]["isr"], "it lags, and leaves"
        )
        self._cluster.again(follower)

    def kill_controller(self) -> None:
        first = self._cluster.controller()
        self._kill(first)
        self._cluster.await_true(
            lambda: self._cluster.controller() not in ("", first), "another node is the controller"
        )
        self._cluster.again(first)

    def stop_controller(self) -> None:
        first = self._cluster.controller()
        self._cluster.process(first).pause()
        self._cluster.await_true(
            lambda: self._cluster.controller() not in ("", first), "another node is the controller"
        )
        self._cluster.again(first)

    def kill_controller_and_leader(self) -> None:
        """The next controller finds the dead one by itself."""
        leader, first = self._cluster.leader(*self._place()), self._cluster.controller()
        self._kill(leader)
        self._kill(first)
        self._cluster.wait_led_by_another(leader)
        self._cluster.again(first)
        self._cluster.again(leader)

    # ------------------------------------------------------------------------------ database, links

    def restart_postgresql(self) -> None:
        """Brokers go on alone meanwhile."""
        self._cluster.postgres.stop()
        self._account.wait_goes_on("without PostgreSQL")
        self._cluster.postgres.start()

    def kill_leader_while_postgresql_is_away(self) -> None:
        leader = self._cluster.leader(*self._place())
        self._cluster.postgres.stop()
        self._kill(leader)
        self._cluster.postgres.start()
        self._cluster.wait_led_by_another(leader)
        self._cluster.again(leader)

    def cut_leader_from_nodes(self) -> None:
        """It is missed, and goes on believing that it leads; its followers go over."""
        leader = self._cluster.leader(*self._place())
        for node in self._cluster.nodes:
            self._cluster.proxies.cut(node, self._how(), source=leader)
        self._cluster.wait_led_by_another(leader)
        self._account.wait_goes_on("while the old leader is alone")

    def cut_followers_from_leader(self) -> None:
        """All of them leave the ISR as far as its floor allows, or the leader waits."""
        leader = self._cluster.leader(*self._place())
        self._cluster.proxies.cut(f"peers-{leader.removeprefix('broker-')}", self._how())
        time.sleep(3 * SHORT_NAP_S)

    def cut_one_follower_from_leader(self) -> None:
        topic, number = self._place()
        leader, follower = self._cluster.leader(topic, number), self._cluster.follower(topic, number)
        away = int(follower.removeprefix("broker-"))
        self._cluster.proxies.cut(f"peers-{leader.removeprefix('broker-')}", self._how(), source=follower)
        self._cluster.await_true(
            lambda: away not in self._cluster.partitions(topic)[number]["isr"], "it lags, and leaves"
        )
        self._account.wait_goes_on("without one follower")

    def cut_clients_from_leader(self) -> None:
        """Acknowledgements are lost on their way; the same batches come again."""
        leader = self._cluster.leader(*self._place()).removeprefix("broker-")
        for _ in range(5):
            self._cluster.proxies.cut(f"client-{leader}", self._how())
            time.sleep(SHORT_NAP_S / 5)
            self._cluster.proxies.mend()
            self._account.wait_goes_on("when clients reach the leader again", records=5)

    def _how(self) -> Cut:
        return self._dice.choice(list(Cut))

    # ------------------------------------------------------------------------------ reassignment

    def _move(self, hurt: Callable[[str, str], None], topic: str, number: int) -> None:
        """Ask for one more broker in the place of the last replica, hurt somebody while it copies, and wait.

        The new replica sleeps while the move begins, so that it is being copied when `hurt` is called with
        the leader and the new one.
        """
        row = self._cluster.partitions(topic)[number]
        new = next(broker for broker in FOUR if broker not in row["assigned"])
        # Sometimes the leader goes, sometimes a follower.
        goes = self._dice.choice(row["assigned"])
        target = tuple(new if broker == goes else broker for broker in row["assigned"])
        leader, added = f"broker-{row['leader']}", f"broker-{new}"
        self._cluster.process(added).pause()
        self._ask_for(topic, number, target, without=added)
        hurt(leader, added)
        self._cluster.again(added)
        self._cluster.await_true(
            lambda: tuple(self._cluster.partitions(topic)[number]["assigned"]) == target, "it has moved"
        )

    def _ask_for(self, topic: str, number: int, target: tuple[int, ...] | None, without: str) -> None:
        """As Kafka's tool does, at any door; None: cancel."""
        key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        shape = request_class(key, 0)
        place = build(part(shape, "ReassignablePartition"), partition_index=number, replicas=target)
        named = build(part(shape, "ReassignableTopic"), name=topic, partitions=(place,))
        port = self._dice.choice(self._cluster.ports_of_doors(without))
        body = build(shape, topics=(named,), timeout=timedelta(seconds=10))
        answer = self._cluster.ask_at(port, key, 0, body)
        (one,) = answer.responses[0].partitions
        assert int(one.error_code) == 0, (topic, number, target, one)

    def move_and_kill_leader(self) -> None:
        def hurt(leader: str, _: str) -> None:
            self._kill(leader)
            self._cluster.wait_led_by_another(leader)
            self._cluster.again(leader)

        self._move(hurt, *self._place())

    def move_and_kill_new_replica(self) -> None:
        def hurt(_: str, added: str) -> None:
            self._cluster.again(added)
            self._kill(added)

        self._move(hurt, *self._place())

    def move_and_kill_controller(self) -> None:
        def hurt(_: str, __: str) -> None:
            self._kill(self._cluster.controller())

        self._move(hurt, *self._place())
        self._start_all()

    def move_and_kill_controller_at_the_switch(self) -> None:
        """And the old leader: both are gone before anybody can be told."""
        topic, number = self._place()
        self._move(lambda _, __: None, topic, number)
        controller, leader = self._cluster.controller(), self._cluster.leader(topic, number)
        self._kill(controller)
        self._kill(leader)
        self._cluster.wait_led_by_another(leader)
        self._start_all()

    def move_and_cancel(self) -> None:
        """The leader dies between; the partition is where it was."""
        topic, number = self._place()
        before = self._cluster.partitions(topic)[number]
        new = next(broker for broker in FOUR if broker not in before["assigned"])
        added = f"broker-{new}"
        self._cluster.process(added).pause()
        self._ask_for(topic, number, (new, *before["assigned"][1:]), without=added)
        leader = self._cluster.leader(topic, number)
        self._kill(leader)
        self._cluster.wait_led_by_another(leader)
        self._ask_for(topic, number, None, without=leader)
        self._cluster.again(added)
        self._cluster.again(leader)
        assert self._cluster.partitions(topic)[number]["assigned"] == before["assigned"]

    # ------------------------------------------------------------------------------ everybody

    def rolling_restart(self) -> None:
        """Brokers, nodes, PostgreSQL, one after the other, as an upgrade does."""
        for name in [f"broker-{number}" for number in FOUR]:
            self._cluster.end_in_order(name)
            self._cluster.again(name)
            self._cluster.wait_whole(f"after the restart of {name}")
        for name in list(self._cluster.nodes):
            self._cluster.end_in_order(name)
            self._cluster.again(name)
            self._cluster.wait_whole(f"after the restart of {name}")
        self.restart_postgresql()

    def kill_everybody(self) -> None:
        """A power cut without the machine: all at once, and all again."""
        everybody = [*self._cluster.nodes, *(f"broker-{number}" for number in FOUR)]
        for name in everybody:
            self._cluster.process(name).popen.send_signal(signal.SIGKILL)
        for name in everybody:
            self._cluster.process(name).popen.wait()
        self._start_all()

    def _start_all(self) -> None:
        for name in [*self._cluster.nodes, *(f"broker-{number}" for number in FOUR)]:
            self._cluster.again(name)


def _said(deed: Callable[[Chaos], None]) -> str:
    return deed.__name__.replace("_", " ")


_ALL: Final = (
    Chaos.kill_leader,
    Chaos.kill_leader_and_start_it_at_once,
    Chaos.kill_follower,
    Chaos.stop_leader,
    Chaos.nap_of_leader,
    Chaos.stop_follower,
    Chaos.kill_controller,
    Chaos.stop_controller,
    Chaos.kill_controller_and_leader,
    Chaos.restart_postgresql,
    Chaos.kill_leader_while_postgresql_is_away,
    Chaos.cut_leader_from_nodes,
    Chaos.cut_followers_from_leader,
    Chaos.cut_one_follower_from_leader,
    Chaos.cut_clients_from_leader,
    Chaos.move_and_kill_leader,
    Chaos.move_and_kill_new_replica,
    Chaos.move_and_kill_controller,
    Chaos.move_and_kill_controller_at_the_switch,
    Chaos.move_and_cancel,
    Chaos.rolling_restart,
    Chaos.kill_everybody,
)
DEEDS: Final[Mapping[str, Callable[[Chaos], None]]] = {_said(deed): deed for deed in _ALL}
SHORT: Final = tuple(
    map(
        _said,
        (
            Chaos.kill_leader_and_start_it_at_once,
            Chaos.stop_follower,
            Chaos.kill_controller_and_leader,
            Chaos.restart_postgresql,
            Chaos.cut_clients_from_leader,
            Chaos.move_and_kill_leader,
        ),
    )
)
"""What fits into a minute: of each kind one."""
