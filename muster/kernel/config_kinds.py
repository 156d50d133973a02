"""This room says what the value of a config may be: numbers, words, lists of them, with bounds."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

LONGEST_LIST: Final = 512 * 1024
"""Characters: ten thousand partitions of three replicas, `9999:1001` each, and their commas."""

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_RATIO: Final = re.compile(r"[01]|[01]?\.[0-9]{1,9}")
_REPLICA: Final = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
ALL_REPLICAS: Final = "*"


class ConfigType(IntEnum):
    """How DescribeConfigs names the kind of a value: Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class BadConfig(ValueError):
    """A key that is none here, or a value outside its bounds; the text names both."""


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A number from `least` to `most`, both allowed."""

    least: int
    most: int

    @property
    def type(self) -> ConfigType:
        return ConfigType.INT if self.most <= INT32_MAX else ConfigType.LONG

    def admitted(self, text: str) -> str | None:
        """`text` as it is stored; None: it is no such value."""
        return text if self.reads(text) and self.least <= int(text) <= self.most else None

    def reads(self, text: str) -> bool:
        """True if it can be obeyed, though an older release may have let it in outside the bounds."""
        return bool(_WHOLE_NUMBER.fullmatch(text))

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A number from 0 to 1, with a point and at most nine digits behind it."""

    @property
    def type(self) -> ConfigType:
        return ConfigType.DOUBLE

    def admitted(self, text: str) -> str | None:
        """`text` as it is stored; None: it is no such value."""
        return text if _RATIO.fullmatch(text) and float(text) <= 1 else None

    def reads(self, text: str) -> bool:
        """True if it can be obeyed."""
        return self.admitted(text) is not None

    def __str__(self) -> str:
        return "a number from 0 to 1"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def type(self) -> ConfigType:
        return ConfigType.BOOLEAN if self.words == FLAG_WORDS else ConfigType.STRING

    def admitted(self, text: str) -> str | None:
        """`text` as it is stored; None: it is no such value. Of a flag, as of Kafka's, any case is taken."""
        word = text.lower() if self.words == FLAG_WORDS else text
        return word if word in self.words else None

    def reads(self, text: str) -> bool:
        """True if it can be obeyed."""
        return text in self.words

    def __str__(self) -> str:
        return " or ".join(self.words)


FLAG_WORDS: Final = ("true", "false")
FLAG: Final = OneOf(FLAG_WORDS)


@dataclass(frozen=True, slots=True)
class SomeOf:
    """One or more of a few words, with commas between them."""

    words: tuple[str, ...]

    @property
    def type(self) -> ConfigType:
        return ConfigType.LIST

    def admitted(self, text: str) -> str | None:
        """`text` as it is stored, each word once; None: it is no such value, as where a comma has none."""
        named = words_of(text)
        fits = len(named) == text.count(",") + 1 and set(named) <= set(self.words)
        return ",".join(dict.fromkeys(named)) if fits else None

    def reads(self, text: str) -> bool:
        """True if it can be obeyed."""
        return self.admitted(text) is not None

    def __str__(self) -> str:
        return f"one or more of {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas, each as PARTITION:BROKER, with commas between them; all of them; or none."""

    @property
    def type(self) -> ConfigType:
        return ConfigType.LIST

    def admitted(self, text: str) -> str | None:
        """`text` as it is stored, each replica once; None: it is no such value."""
        named = words_of(text)
        if len(text) > LONGEST_LIST:
            return None
        fits = named == [ALL_REPLICAS] or all(map(_REPLICA.fullmatch, named))
        return ",".join(dict.fromkeys(named)) if fits else None

    def reads(self, text: str) -> bool:
        """True if it can be obeyed."""
        return self.admitted(text) is not None

    def __str__(self) -> str:
        return f"{ALL_REPLICAS}, or PARTITION:BROKER with commas between, at most {LONGEST_LIST} characters"


Kind = WholeNumber | Ratio | OneOf | SomeOf | Replicas


def words_of(text: str) -> list[str]:
    """The words between commas, without the spaces around them: Java's `\\s`, none of other scripts."""
    return [word for part in text.split(",") if (word := part.strip(" \t\n\v\f\r"))]
