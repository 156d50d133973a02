"""Whoever subscribes to what is no pattern of RE2 is told why, in words for people."""

import pytest
import re2

from coordinator.patterns import InvalidPattern, check, matches
from muster.messages.member import TOPICS_MAX


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("o(", "not an RE2 pattern: missing ): o("), ("ö(", "not an RE2 pattern: missing ): ö(")],
)
def test_a_pattern_that_cannot_be_read_is_refused_in_words(pattern: str, why: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        check([pattern])
    assert str(refused.value) == why
    assert not matches(pattern, "orders")


def test_a_pattern_that_takes_long_to_compile_is_refused() -> None:
    for pattern in (r"([\pL\pN\pS]){40}", r"\PL" * 60, "(.?){999}"):
        with pytest.raises(InvalidPattern, match="too large"):
            check([pattern])


def test_so_is_one_of_which_nothing_is_left_when_it_is_compiled() -> None:
    for pattern in (r"(?i)[" + r"\pL\PL" * 40 + "]", r"(?:a{0,1000}b){0}" * 15):
        with pytest.raises(InvalidPattern, match="too large"):
            check([pattern])
        assert not matches(pattern, "orders")
    with pytest.raises(InvalidPattern, match="the patterns are too large together"):
        check(rf"{number}(\pL{{0}}){{10}}" for number in range(TOPICS_MAX))


def test_what_is_refused_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    compile_it = re2.compile

    def noted(pattern: str, options: object) -> object:
        read.append(pattern)
        return compile_it(pattern, options)

    monkeypatch.setattr(re2, "compile", noted)
    pattern = r"([\pL\pN]){40}"
    for number in range(100):
        assert not matches(pattern, f"orders-{number}")
    assert read == [pattern]


def test_so_are_many_that_take_long_together() -> None:
    check(rf"\pL{number}" for number in range(50))
    with pytest.raises(InvalidPattern, match="the patterns are too large together"):
        check(rf"\pL{number}" for number in range(TOPICS_MAX))


def test_a_thousand_patterns_that_people_write_are_taken() -> None:
    check(rf"flights\.(eu|us)\.airport-{number}\..*" for number in range(TOPICS_MAX))
    check([".{1,249}", "[a-z0-9._-]{1,249}", "(?i)flights-[a-z]+-[0-9]{4}", r"\w{1,100}", "a{249}"])


def test_groups_in_a_pattern_cost_nothing() -> None:
    """What each of them matched, which nobody asks, RE2 would carry along for each way to read a name."""
    many = (f"{number}" + "()" * 100 + r"\w{0,60}" for number in range(TOPICS_MAX // 5))
    check(many)
    assert matches(".*" + "()" * 100 + r"(\w{0,100})(-eu|-us)", "flights-eu")
