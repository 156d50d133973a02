"""Whoever subscribes to what is no pattern of RE2 is told why, in words for people."""

import pytest

from coordinator.patterns import InvalidPattern, check, matches


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("o(", "not an RE2 pattern: missing ): o("), ("ö(", "not an RE2 pattern: missing ): ö(")],
)
def test_a_pattern_that_cannot_be_read_is_refused_in_words(pattern: str, why: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        check(pattern)
    assert str(refused.value) == why
    assert not matches(pattern, "orders")
