"""This room reads settings out of an environment: one reader, with bounds, for every process of the house.

It is told the variables and how to open a file, and knows every setting by its declaration
(`muster.kernel.settings`); what it cannot use it refuses by the variable's name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

Value = str | int | bool | tuple[str, ...]
Kind = Literal["text", "number", "switch", "words", "choice"]

ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"0", "false", "no", "off"})
OURS = "MUSTER_"
FILE = "_FILE"
LONGEST_NUMBER = 18


class SettingError(Exception):
    """A setting is missing or cannot be used; the text names the variable and says what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One variable: what it means, what it may be, what it is when nobody says.

    ``unit`` and the bounds belong to numbers, ``choices`` to a choice. A ``secret`` may lie in a file that
    NAME_FILE names. ``required`` ones have no default.
    """

    name: str
    meaning: str
    kind: Kind = "text"
    default: Value = ""
    unit: str = ""
    least: int = 0
    most: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    secret: bool = False
    required: bool = False


class Environment:
    """The variables of one process, read by their declarations. Empty counts as not set, everywhere."""

    def __init__(
        self,
        given: Mapping[str, str],
        declared: Sequence[Setting],
        open_file: Callable[[str], str] | None = None,
    ) -> None:
        self._given = given
        self._declared = {setting.name: setting for setting in declared}
        self._open_file = open_file

    def text(self, name: str) -> str:
        """The text, or the word chosen. Raises SettingError."""
        return str(self.value(name))

    def number(self, name: str) -> int:
        """The whole number, within its bounds. Raises SettingError."""
        found = self.value(name)
        assert isinstance(found, int), f"{name} is declared as no number"
        return found

    def switch(self, name: str) -> bool:
        """True for on, False for off. Raises SettingError for any other word."""
        return self.value(name) is True

    def words(self, name: str) -> tuple[str, ...]:
        """The words between commas. Raises SettingError."""
        found = self.value(name)
        assert isinstance(found, tuple), f"{name} is declared as no list of words"
        return found

    def default(self, name: str) -> Value:
        """What the setting is when nobody says."""
        return self._declared[name].default

    def is_given(self, name: str) -> bool:
        """True if the variable says anything, by itself or by its file."""
        return bool(self._text(self._declared[name]))

    def value(self, name: str) -> Value:
        """What the setting is. Raises SettingError for what cannot be used, KeyError if none declares it."""
        setting = self._declared[name]
        text = self._text(setting)
        if text:
            return _understood(setting, text)
        if setting.required:
            raise SettingError(f"{name} is not set.")
        return setting.default

    def unknown(self) -> Iterator[str]:
        """A line for each variable of ours that is no setting, naming the one that was probably meant."""
        known = {name for name in self._declared if name.startswith(OURS)}
        known |= {setting.name + FILE for setting in self._declared.values() if setting.secret}
        for name in sorted(self._given):
            if name.startswith(OURS) and name not in known:
                tails = sorted(one.removeprefix(OURS) for one in known)
                nearest = get_close_matches(name.removeprefix(OURS), tails, n=1)
                yield f"{name} is no setting" + (f"; is {OURS}{nearest[0]} meant?" if nearest else ".")

    def _text(self, setting: Setting) -> str:
        value = self._given.get(setting.name, "").strip()
        file_name = self._given.get(setting.name + FILE, "").strip() if setting.secret else ""
        if not file_name:
            return value
        if value:
            raise SettingError(f"{setting.name} and {setting.name}{FILE} are both set; keep one.")
        if self._open_file is None:
            raise SettingError(f"{setting.name}{FILE} cannot be read here.")
        try:
            content = self._open_file(file_name).strip()
        except OSError as error:
            raise SettingError(
                f"{setting.name}{FILE}={file_name} cannot be read: {error.strerror}."
            ) from error
        except ValueError as error:
            raise SettingError(f"{setting.name}{FILE}={file_name} cannot be read: it is no text.") from error
        if not content:
            raise SettingError(f"{setting.name}{FILE}={file_name} is empty.")
        return content


def _understood(setting: Setting, text: str) -> Value:
    """What a text that is not empty means. Raises SettingError."""
    if not _is_text(text):
        raise SettingError(f"{setting.name} is no text in UTF-8.")
    match setting.kind:
        case "number":
            digits = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
            if not (digits and setting.least <= int(text) <= setting.most):
                raise SettingError(
                    f"{setting.name}={text!r} is not a whole number from {setting.least} to {setting.most}."
                )
            return int(text)
        case "switch":
            if text.lower() not in ON | OFF:
                raise SettingError(f"{setting.name}={text!r} is neither on nor off (1 or 0, true or false).")
            return text.lower() in ON
        case "words":
            words = tuple(word.strip() for word in text.split(",") if word.strip())
            if not words:
                raise SettingError(f"{setting.name}={text!r} names nothing.")
            return words
        case "choice":
            for choice in setting.choices:
                if choice.lower() == text.lower():
                    return choice
            raise SettingError(f"{setting.name}={text!r} is none of {', '.join(setting.choices)}.")
        case "text":
            return text


def _is_text(text: str) -> bool:
    """False for bytes of the environment that are no UTF-8, and for NUL: no row or page could hold them."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)
