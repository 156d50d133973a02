"""Who comes with many, or asks for much at once, is served for no longer than anybody else who waits."""

from collections import Counter

from kafkaserver.fair_line import FairLine


class Served:
    """A line on a clock that goes on by what serving takes."""

    def __init__(self, **takes_s: float) -> None:
        self.now_s = 0.0
        self.line: FairLine[str] = FairLine(lambda: self.now_s)
        self.order: list[str] = []
        self._takes_s = takes_s

    def comes(self, *names: str) -> None:
        for name in names:
            self.line.wait(name, name[0])

    def next(self, times: int = 1) -> None:
        for _ in range(times):
            self.line.serve_next(self._serve)

    def _serve(self, name: str) -> None:
        self.order.append(name)
        self.now_s += self._takes_s.get(name[0], 1.0)


def test_many_small_ones_weigh_as_much_as_a_large_one() -> None:
    served = Served(a=8.0, b=1.0)
    served.comes(*(f"a{number}" for number in range(40)), *(f"b{number}" for number in range(40)))
    served.next(45)
    assert Counter(name[0] for name in served.order) == {"a": 5, "b": 40}


def test_whoever_comes_late_is_next_and_has_saved_up_nothing() -> None:
    served = Served(a=1.0, b=1.0)
    served.comes(*(f"a{number}" for number in range(40)))
    served.next(20)
    served.comes(*(f"b{number}" for number in range(40)))
    served.next(12)
    assert Counter(name[0] for name in served.order[20:]) == {"a": 6, "b": 6}
    assert "b0" in served.order[20:22]


def test_those_of_one_are_served_as_they_came_and_keep_their_place() -> None:
    served = Served()
    served.comes("a1", "a2", "a1", "a3")
    served.next(3)
    assert served.order == ["a1", "a2", "a3"] and not served.line


def test_whoever_comes_again_after_each_turn_has_not_been_away() -> None:
    """Three who each had more to say in the next round of the loop were served for ever, and no other was."""
    served = Served(a=20.0, b=20.0, c=20.0, d=0.1)
    served.comes("a1", "b1", "c1", *(f"d{number}" for number in range(400)))
    for _ in range(200):
        served.next()
        served.comes("a1", "b1", "c1")
    assert Counter(name[0] for name in served.order[:200]) == {"a": 1, "b": 1, "c": 1, "d": 197}
    served.next(100)
    assert [served.order.count(name) for name in ("a1", "b1", "c1")] == [2, 2, 2]


def test_whoever_is_gone_is_forgotten_when_others_had_as_much() -> None:
    served = Served(a=5.0, b=1.0)
    served.comes("a1", *(f"b{number}" for number in range(8)))
    served.next(8)
    assert set(served.line._crowds) == {"b"}
    served.next()
    assert not served.line and not served.line._crowds and not served.line._order


def test_a_mistake_costs_its_time_and_nobody_elses_turn() -> None:
    served = Served()
    served.comes("a1", "a2", "b1")

    def fail(name: str) -> None:
        served.now_s += 5.0
        raise ValueError(name)

    try:
        served.line.serve_next(fail)
    except ValueError:
        served.next(2)
    assert served.order == ["b1", "a2"] and not served.line


def test_whoever_comes_again_while_it_is_served_waits_behind_others() -> None:
    served = Served()
    served.comes("a1", "b1")
    served.line.serve_next(lambda name: served.comes(name))
    served.next(2)
    assert served.order == ["b1", "a1"]
