"""This room is what chaos does: each deed hurts one thing, and returns when everything is whole again."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from muster.messages.link.rows import NO_LEADER
from tests.acceptance.chaos_cluster import FOUR
from tests.acceptance.chaos_deeds import SHORT_NAP_S
from tests.acceptance.chaos_disk import FullDisks
from tests.acceptance.chaos_moves import Moves


class Chaos(Moves, FullDisks):
    """All deeds."""

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

    def chase_leader(self) -> None:
        """Whoever leads a partition dies as soon as it does, five times."""
        topic, number = self._place()
        for _ in range(5):
            leader = self._cluster.wait_led(topic, number)
            self._kill(leader)
            self._cluster.again(leader)

    def kill_two_of_three_then_the_last(self) -> None:
        """Below min.insync.replicas nothing is taken, and who is left dies before anybody is back."""
        topic, number = self._place()
        row = self._cluster.partitions(topic)[number]
        for broker in self._dice.sample(row["assigned"], len(row["assigned"])):
            self._kill(f"broker-{broker}")
            self._cluster.await_true(
                lambda gone=broker: self._cluster.leaders(topic)[number] != gone, "it is missed"
            )
        for broker in self._dice.sample(row["assigned"], len(row["assigned"])):
            self._cluster.again(f"broker-{broker}")

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
        follower, how = self._cluster.follower(topic, number), self._how()
        away, cut_from = int(follower.removeprefix("broker-")), {NO_LEADER}

        def is_away() -> bool:
            """Out of the ISR. On a busy machine another may lead meanwhile: it is cut from that, too."""
            row = self._cluster.partitions(topic)[number]
            if row["leader"] not in cut_from | {away}:
                self._cluster.proxies.cut(f"peers-{row['leader']}", how, source=follower)
                cut_from.add(row["leader"])
            return row["leader"] == away or away not in row["isr"]

        what = f"{follower} is cut ({how.value}) from whoever leads {topic}-{number}, lags and leaves"
        self._cluster.await_true(is_away, what)
        self._account.wait_goes_on("without one follower")

    def cut_clients_from_leader(self) -> None:
        """Acknowledgements are lost on their way; the same batches come again."""
        leader = self._cluster.leader(*self._place()).removeprefix("broker-")
        for _ in range(5):
            self._cluster.proxies.cut(f"client-{leader}", self._how())
            time.sleep(SHORT_NAP_S / 5)
            self._cluster.proxies.mend()
            self._account.wait_goes_on("when clients reach the leader again", records=5)

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


def _said(deed: Callable[[Chaos], None]) -> str:
    return deed.__name__.replace("_", " ")


_ALL: Final = (
    Chaos.kill_leader,
    Chaos.kill_leader_and_start_it_at_once,
    Chaos.chase_leader,
    Chaos.kill_two_of_three_then_the_last,
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
    Chaos.move_and_kill_leader_at_each_step,
    Chaos.move_and_kill_new_replica_at_each_step,
    Chaos.move_and_kill_leaving_replica_at_each_step,
    Chaos.move_and_kill_staying_replica_at_each_step,
    Chaos.move_and_kill_controller_at_each_step,
    Chaos.move_and_kill_other_node_at_each_step,
    Chaos.move_and_kill_controller_and_leader_at_the_switch,
    Chaos.move_and_cancel,
    Chaos.fill_disk,
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
            Chaos.move_and_kill_leader_at_each_step,
            Chaos.fill_disk,
            Chaos.rolling_restart,
        ),
    )
)
"""What fits into two minutes: of each kind one."""
