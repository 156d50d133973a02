"""This room is what every action on the cluster's pages has: a target, a wish, consequences."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from rest_framework import serializers

from access.rest.problems import Problem
from controller import asking
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer

Stated = Mapping[str, str]
"""The fields of the form, as they were posted."""

MEGABYTE: Final = 1_000_000
FIELDS: Final = {
    "topic": "Name",
    "partitions": "Partitions",
    "replication_factor": "Replicas",
    "assignments": "Brokers of each partition",
    "configs": "Configs",
    "reason": "Reason",
    "replicas": "Replicas",
    "brokers": "Brokers",
    "topics": "Topics",
    "throttle": "Throttle",
    "producer_byte_rate": "May produce",
    "consumer_byte_rate": "May fetch",
}
"""What a page calls the fields of a request."""

_LARGEST_DIGITS: Final = 15
_MEGABYTES: Final = re.compile(r"\d{1,9}(?:\.\d{1,6}|,(?!\d{3}$)\d{1,6})?")
"""Not `1,000`: of two people one would mean a thousand."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an action is about. `version`: of its row as the page shows it; "": it has none.

    `crumbs`: names and addresses of the pages that lead to it; the last is where one goes back to.
    """

    label: str
    crumbs: tuple[tuple[str, str], ...]
    version: str = ""
    row: Any = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def back(self) -> str:
        """The address of the page about it."""
        return self.crumbs[-1][1]


class Action:
    """One action: the form's fields, the wish that they state, and what would come of it.

    `title` is verb and object, as its button says it. `loses`: something is lost; `by_name`: it is done once
    the target's name was typed. `fields` and `would` are templates; no `fields`: nothing is to be stated.
    """

    title: ClassVar[str]
    named_by: ClassVar[frozenset[str]] = frozenset()
    """The parts of the address that name its target."""
    section: ClassVar[str] = "topics"
    loses: ClassVar[bool] = False
    at_once: ClassVar[bool] = False
    """What it asks changes nothing yet: it is asked without being shown before."""
    by_name: ClassVar[bool] = False
    fields: ClassVar[str] = ""
    would: ClassVar[str] = ""

    def target(self, **address: Any) -> Target:
        """What the address names. Raises Http404."""
        raise NotImplementedError

    def wish(self, target: Target, stated: Stated, version: str) -> Wish:
        """What is asked of the controller. Raises Problem, serializers.ValidationError."""
        raise NotImplementedError

    def trial(self, wish: Wish) -> Wish | None:
        """The same wish, only to be judged; None: it cannot be."""
        return None

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        """What the template `would` is given."""
        return {}

    def leads_to(self, row: asking.Request) -> str:
        """The page to show once it was asked; "": the one that tells what became of the request."""
        return ""


def whole(text: str, what: str) -> int:
    """A whole number as people write it. Raises Problem."""
    digits = re.sub(r"[\s\u202f]", "", text)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LARGEST_DIGITS):
        raise Problem(400, f"{what}: {text[:40]!r} is not a whole number.")
    return int(digits)


def megabytes(text: str, what: str) -> int:
    """Bytes of a number of megabytes as people write it, such as `0.5`. Raises Problem."""
    plain = re.sub(r"[\s\u202f]", "", text)
    if not (plain.isascii() and _MEGABYTES.fullmatch(plain)):
        raise Problem(400, f"{what}: {text[:40]!r} is no number of megabytes like 10 or 0.5.")
    return round(float(plain.replace(",", ".")) * MEGABYTE)


def brokers_of(text: str, what: str = "Replicas") -> list[int]:
    """`4, 2, 3` or `4 2 3`. Raises Problem."""
    return [whole(one, what) for one in re.split(r"[\s,]+", text.strip()) if one]


def valid(shape: serializers.Serializer[Any]) -> serializers.Serializer[Any]:
    """The shape, if it is valid. Raises serializers.ValidationError."""
    shape.is_valid(raise_exception=True)
    return shape


def faults_of(detail: Any, name: str = "") -> list[str]:
    """What does not fit, in a sentence for each field."""
    if isinstance(detail, Mapping):
        return [one for key, of in detail.items() for one in faults_of(of, FIELDS.get(str(key), str(key)))]
    if isinstance(detail, list):
        return [one for of in detail for one in faults_of(of, name)]
    return [f"{name}: {detail}" if name else str(detail)]
