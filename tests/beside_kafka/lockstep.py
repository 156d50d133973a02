"""This room asks Muster and Apache Kafka the same in step, and excuses what docs/deviations.md names."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

from muster.kafkawire.api_table import SERVED, ApiKey, build, request_class
from tests.beside_kafka.doors import HUNG_UP, LATE_S, PATIENCE_S, Difference, Door, differences

Values = Mapping[str, Any]
Told = Callable[[int, Any], Any]
"""What an answer of that door (0: Muster's) says, by names that both share."""


class Known(NamedTuple):
    """A difference that is meant: `row` is how its row in docs/deviations.md begins.

    `holds` judges one value that is not the same by what was asked; what stands beside it is excused, too.
    """

    row: str
    holds: Callable[[Values, Difference], bool]


@dataclass
class Question:
    """What was asked of both, and what they said."""

    text: str
    about: Values
    heard: Any = None

    def __str__(self) -> str:
        return f"{self.text} -> {str(self.heard)[:400]}"


class Parted(Exception):
    """Both are in different states by a difference that is meant: the walk ends."""


@dataclass
class Lockstep:
    """The questions of one walk; `doors` are Muster's and Kafka's."""

    doors: tuple[Door, Door]
    random: random.Random
    known: Sequence[Known]
    steps: list[Question] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    is_apart: bool = False
    """The last question was refused by one alone, which is known."""

    def ask(
        self,
        key: ApiKey,
        version: int,
        values: Values | Callable[[int], Values],
        told: Told,
        *,
        about: Values | None = None,
        doors: tuple[Door, Door] | None = None,
        until_alike: bool = False,
    ) -> tuple[list[str], Any, Any]:
        """What is unlike and not known, and both answers; `until_alike`: a change may come a little later."""
        make = values if callable(values) else lambda _door: values
        question = Question(
            f"#{len(self.steps)} {key.name} {version} {make(0)}", {"version": version, **(about or {})}
        )
        self.steps.append(question)
        give_up_at = time.monotonic() + LATE_S
        while True:
            ours, theirs = both_answer(doors or self.doors, key, version, make)
            question.heard = told(0, ours) if HUNG_UP not in ours else ours
            expected = told(1, theirs) if HUNG_UP not in theirs else theirs
            found = self._unknown(question.about, differences(question.heard, expected))
            if not found or not until_alike or time.monotonic() > give_up_at:
                return [f"{question.text}: {one}" for one in found], ours, theirs

    def _unknown(self, about: Values, found: Sequence[Difference]) -> list[Difference]:
        excused, self.is_apart = set(), False
        for one in found:
            known = next((known for known in self.known if known.holds(about, one)), None)
            if known is not None:
                self.used[known.row] += 1
                self.is_apart |= one.where.endswith("error_code") and not (one.ours and one.theirs)
                excused.add(one.where.rpartition(".")[0])
        return [one for one in found if not any(one.where.startswith(parent) for parent in excused)]

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def version(self, key: ApiKey) -> int:
        """The newest half of the time."""
        api = SERVED[key]
        return api.maximum if self.chance(0.5) else self.random.randint(api.minimum, api.maximum)


def both_answer(
    doors: tuple[Door, Door], key: ApiKey, version: int, make: Callable[[int], Values]
) -> tuple[Any, Any]:
    """Raises AssertionError if either does not answer."""
    shape = request_class(key, version)
    asked = [door.ask(key, version, shaped(shape, make(number))) for number, door in enumerate(doors)]
    give_up_at = time.monotonic() + PATIENCE_S
    while any(one.answer is None for one in asked):
        who = "Kafka" if asked[0].answer is not None else "Muster"
        assert time.monotonic() < give_up_at, f"{who} does not answer {key.name} {version} {make(0)}"
        for door, one in zip(doors, asked, strict=True):
            if one.answer is None:
                door.hear(0.02)
    return asked[0].answer, asked[1].answer


def shaped(shape: Any, values: Values) -> Any:
    """kio's class of plain values; parts are mappings, and what this version does not have is left out."""
    types = {one: field_.type for one, field_ in shape.__dataclass_fields__.items()}
    return build(shape, **{name: _as(types.get(name), value) for name, value in values.items()})


def _as(kind: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        part = next((one for one in _within(kind) if hasattr(one, "__dataclass_fields__")), None)
        return tuple(shaped(part, one) if isinstance(one, Mapping) and part else one for one in value)
    if isinstance(value, Mapping) and hasattr(kind, "__dataclass_fields__"):
        return shaped(kind, value)
    return value


def _within(kind: Any) -> Sequence[Any]:
    return [one for arg in get_args(kind) for one in (arg, *_within(arg))]


def _by_name(part: Any) -> str:
    """Parts of an answer are put in the order of what they are about, whatever they say of it."""
    named = [part[name] for name in NAMES if name in part] if isinstance(part, dict) else []
    return f"{named}{part}"


NAMES: Final = ("name", "group_id", "topic", "topic_name", "resource_name", "partition_index", "partition_id")
SHOWN_APART: Final = ("throttle_time", "error_message")
"""Texts are each system's own, and time is."""


def stripped(value: Any, without: Sequence[str] = ()) -> Any:
    """An answer without what is each system's own; lists of parts in an order that both share."""
    if isinstance(value, list):
        return sorted((stripped(one, without) for one in value), key=_by_name)
    if isinstance(value, dict):
        names = [name for name in value if name not in SHOWN_APART and name not in without]
        return {name: stripped(value[name], without) for name in names}
    return value
