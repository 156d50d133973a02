"""This room reads what people type: partitions of topics, brokers, sizes, spans of time, keys with values."""

import json
import re
from collections.abc import Callable
from operator import index
from pathlib import Path
from typing import Any, Final

import typer

from muster.cli.failures import Failure, usage

_SIZE: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,3}))?\s*([kKMGT]?)(i?)[bB]?")
_POWER: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_SPAN: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_SPAN_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST_NUMBERS: Final = 10_000


def whole(least: int) -> Callable[[str | int], int]:
    """What reads a whole number, `least` or more; it raises typer.BadParameter."""

    def number(text: str | int) -> int:
        said = str(text).strip()
        if not said.isdecimal() or len(said) > 18 or int(said) < least:
            raise typer.BadParameter(f"{said!r} is no whole number from {least} on.")
        return int(said)

    return number


def scope(text: str) -> dict[str, Any]:
    """`orders`, or `orders:0,2-5`: a topic, and partitions of it. Raises Failure."""
    topic, colon, said = text.partition(":")
    if not topic:
        raise usage(f"{text!r} names no topic.", "It looks like orders or orders:0,2-5.")
    return {"topic": topic} | ({"partitions": numbers(said)} if colon else {})


def numbers(text: str) -> list[int]:
    """`0,2-5`: whole numbers and runs of them. Raises Failure."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)) or len(low + high) > 18:
            raise usage(f"{text!r} is no list of numbers.", "It looks like 0,2-5.")
        first, last = int(low), int(high or low)
        if last < first or len(found) + last - first >= _MOST_NUMBERS:
            raise usage(f"{text!r} is no list of numbers, or one of more than {_MOST_NUMBERS}.")
        found += range(first, last + 1)
    return found


def size(text: str) -> int:
    """Bytes of `50MB`, `1.5G`, `64KiB` or a number. Raises Failure."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise usage(f"{text!r} is no number of bytes.", "It looks like 50MB or 50000000.")
    unit: int = (1024 if found[4] else 1000) ** _POWER[found[3]]
    return int(found[1]) * unit + int((found[2] or "0").ljust(3, "0")) * unit // 1000


def span_ms(text: str) -> int:
    """Milliseconds of `10m`, `2h`, `500ms`. Raises Failure."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise usage(f"{text!r} is no span of time.", "It looks like 10m, 2h or 7d.")
    return int(found[1]) * _SPAN_MS[found[2]]


def pairs(said: list[str]) -> dict[str, str]:
    """`retention.ms=86400000` of each. Raises Failure."""
    found: dict[str, str] = {}
    for text in said:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise usage(f"{text!r} is no key with a value.", "It looks like retention.ms=86400000.")
        if key in found:
            raise usage(f"{key} is said twice.")
        found[key] = value
    return found


def reassignment(name: str) -> list[dict[str, Any]]:
    """The partitions of a file as kafka-reassign-partitions.sh takes it. Raises Failure."""
    try:
        told: Any = json.loads(Path(name).read_text(encoding="utf-8"))
        return [
            {
                "topic": str(one["topic"]),
                "partition": index(one["partition"]),
                "replicas": [index(broker) for broker in one["replicas"]],
            }
            for one in told["partitions"]
        ]
    except OSError as error:
        raise usage(f"{name} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _no_reassignment(name) from error


def _no_reassignment(name: str) -> Failure:
    form = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
    return usage(f"{name} is no reassignment.", f"It looks like {form}.")
