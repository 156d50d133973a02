"""An array is one parameter, whatever its texts hold."""

import pytest

from runtime.arrays import array_of_numbers, array_of_texts


@pytest.mark.parametrize(
    ("texts", "literal"),
    [
        ([], "{}"),
        ([""], '{""}'),
        (["a", "b c", "NULL"], '{"a","b c","NULL"}'),
        (['say "a"', "b"], r'{"say \"a\"","b"}'),
        (["back\\slash", "{,}"], r'{"back\\slash","{,}"}'),
    ],
)
def test_texts_are_quoted(texts: list[str], literal: str) -> None:
    assert array_of_texts(iter(texts)) == literal


def test_numbers_are_not() -> None:
    assert array_of_numbers([3, -1]) == "{3,-1}"
