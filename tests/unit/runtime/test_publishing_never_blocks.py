"""Whoever offers work never waits for Redis: doubles and overflow are dropped, failures forget the rest."""

import threading

from runtime.publishing import Publisher


class Redis:
    """Hangs until it is let go, then answers or fails."""

    def __init__(self, fails: bool = False) -> None:
        self.sent: list[str] = []
        self.fails = fails
        self.go = threading.Event()
        self.entered = threading.Event()

    def __call__(self, item_id: str) -> None:
        self.entered.set()
        assert self.go.wait(10)
        if self.fails:
            raise ConnectionError("gone")
        self.sent.append(item_id)


def test_a_hanging_redis_costs_a_bounded_queue() -> None:
    redis = Redis()
    publisher = Publisher(redis, capacity=3)
    assert [publisher.publish(item) for item in ("a", "a", "b", "c", "d")] == [True, False, True, True, False]
    redis.go.set()
    publisher.stop()


def test_what_waits_behind_a_failure_is_left_to_the_spare_process() -> None:
    redis = Redis(fails=True)
    publisher = Publisher(redis, capacity=3)
    publisher.publish("a")
    assert redis.entered.wait(10)
    publisher.publish("b")
    redis.go.set()
    # The queue is empty again: the same items may be asked for.
    while not publisher.publish("b"):
        pass
    publisher.stop()
    assert redis.sent == []
