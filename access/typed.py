"""This room reads what was typed before a session ended and no address bears: the door has kept it."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from django.http import QueryDict
from django.utils.http import urlencode

LONGEST_TYPED: Final = 262_144
"""In letters, written as a form writes them; the page of the door says so of what is longer."""

NOT_TYPED: Final = frozenset({"csrfmiddlewaretoken", "version", "key", "shown", "go", "confirm"})
"""What belongs to the form that was sent, and is to be looked at, or typed, anew."""

_FIELDS_MAX: Final = 1_000

_LONGEST_ADDRESS: Final = 4_000
"""In letters: a proxy may take 8 KiB for a line of a request's head, as nginx does."""


def typed_into(posted: QueryDict) -> list[tuple[str, str]]:
    """The fields of a form that was sent, and what was typed into them.

    A field that was emptied goes along as well: without it the form shows what is set.
    """
    return [(name, str(text)) for name, text in posted.items() if name not in NOT_TYPED]


def written_as_a_form(typed: Sequence[tuple[str, str]]) -> str:
    """The fields as a form writes them; empty where that is longer than LONGEST_TYPED.

    Megabytes of somebody whom nobody knows are not written out to see how long they are.
    """
    if sum(len(name) + len(text) for name, text in typed) > LONGEST_TYPED:
        return ""
    written = urlencode(typed)
    return written if len(written) <= LONGEST_TYPED else ""


def way_back(posted: QueryDict) -> str | None:
    """The query by which a form is filled in as it was sent; None if no address bears it.

    A browser keeps no answer to what was sent: whoever goes back to one is shown an error of the browser.
    The form stays about the version that was looked at: of another, what is filled in would undo the changes.
    """
    version = posted.get("version")
    return _address("", typed_into(posted) + ([("version", version)] if version else []))


def way_back_to(form: str, typed: Sequence[tuple[str, str]]) -> str | None:
    """The address of a form that is filled in with what was kept of it; None if no address bears it."""
    return _address(form + ("&" if "?" in form else "?"), typed)


def _address(before: str, fields: Sequence[tuple[str, str]]) -> str | None:
    written = written_as_a_form(fields)
    address = before + written
    return None if len(address) > _LONGEST_ADDRESS or (fields and not written) else address


def typed_in(written: str) -> list[tuple[str, str]]:
    """The fields of the form and what was typed into them; none of what is no form.

    What would have it done stays out here, too, whoever wrote it: behind the door a form is only shown.
    """
    if len(written) > LONGEST_TYPED:
        return []
    try:
        fields = parse_qsl(written, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        return []
    return [(name, text) for name, text in fields if name not in NOT_TYPED]
