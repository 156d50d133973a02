"""This room reads what was typed before a session ended and no address bears: the door has kept it."""

from typing import Final
from urllib.parse import parse_qsl

LONGEST_TYPED: Final = 262_144
"""In letters, written as a form writes them; the page of the door says so of what is longer."""

_FIELDS_MAX: Final = 1_000


def typed_in(written: str) -> list[tuple[str, str]]:
    """The fields of the form and what was typed into them; none of what is no form."""
    if len(written) > LONGEST_TYPED:
        return []
    try:
        return parse_qsl(written, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        return []
