"""Whoever subscribes to what is no pattern of RE2 is told why, in words for people."""

import pytest

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


def test_so_are_many_that_take_long_together() -> None:
    check(rf"\pL{number}" for number in range(50))
    with pytest.raises(InvalidPattern, match="the patterns are too large together"):
        check(rf"\pL{number}" for number in range(TOPICS_MAX))


def test_a_thousand_patterns_that_people_write_are_taken() -> None:
    check(rf"flights\.(eu|us)\.airport-{number}\..*" for number in range(TOPICS_MAX))
    check([".{1,249}", "[a-z0-9._-]{1,249}", "(?i)flights-[a-z]+-[0-9]{4}", r"\w{1,100}", "a{249}"])
