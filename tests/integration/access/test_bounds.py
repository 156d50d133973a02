"""This room tests the bounds on strangers: how often, from where, in how much memory."""

from access.buckets import Buckets
from muster.kernel.addresses import network_of


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_and_then_what_flows_in() -> None:
    clock = Clock()
    buckets = Buckets(3, 0.5, clock=clock)
    assert [buckets.take("ann") for _ in range(4)] == [0.0, 0.0, 0.0, 2.0]
    assert buckets.take("ben") == 0.0
    clock.now += 2.0
    assert buckets.wait_s("ann") == 0.0
    assert [buckets.take("ann") for _ in range(2)] == [0.0, 2.0]
    clock.now += 1_000.0
    assert [buckets.take("ann") for _ in range(4)][:3] == [0.0, 0.0, 0.0]


def test_strangers_cannot_make_it_grow() -> None:
    buckets = Buckets(1, 1.0, most_keys=10, clock=Clock())
    buckets.take("ann")
    for number in range(1_000):
        buckets.wait_s(f"asked-{number}")
        buckets.take(f"taken-{number}")
    assert len(buckets) == 10


def test_who_has_a_network_of_addresses_is_one_stranger() -> None:
    assert network_of("203.0.113.9") == "203.0.113.9"
    assert network_of("2001:db8:1:2::1") == network_of("2001:db8:1:2:ffff::9") == "2001:0db8:0001:0002"
    assert network_of("::ffff:203.0.113.9") == "203.0.113.9"
    assert network_of("unix") == "unix"
