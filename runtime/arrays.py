"""This room spells PostgreSQL's arrays: the driver's own way calls several Python functions for each element.

With a batch of offsets that was more than half of what a lane's thread did, and the loop waited meanwhile.
"""

from collections.abc import Iterable


def array_of_texts(texts: Iterable[str]) -> str:
    """The literal of a `text[]`, for a parameter; any text but NUL, which PostgreSQL cannot store."""
    quoted = list(texts)
    together = "".join(quoted)
    if "\\" in together or '"' in together:
        quoted = [_escaped(text) for text in quoted]
    return '{"' + '","'.join(quoted) + '"}' if quoted else "{}"


def array_of_numbers(numbers: Iterable[int]) -> str:
    """The literal of an `int[]` or `bigint[]`, for a parameter."""
    return "{" + ",".join(map(str, numbers)) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
