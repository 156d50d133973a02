"""This room seals the place where a page of a list ended, so that the next page of this list begins there."""

import json
from collections.abc import Sequence
from typing import Any

from django.core import signing

_SALT = "muster.cursor"
_LONGEST = 2048


class NotOurs(ValueError):
    """The cursor was not made here, or it was made for another list; the text says which."""


def sealed(place: Sequence[Any], of: Sequence[Any]) -> str:
    """An opaque text for the place `place` in the list that `of` names: address, filters, order."""
    return signing.dumps({"place": list(place), "of": _named(of)}, salt=_SALT, compress=True)


def opened(cursor: str, of: Sequence[Any]) -> list[Any]:
    """The place inside a cursor. Raises NotOurs unless it was made here and for this very list."""
    if len(cursor) > _LONGEST:
        raise NotOurs("The cursor is not one of ours.")
    try:
        inside = signing.loads(cursor, salt=_SALT)
        place, made_for = list(inside["place"]), inside["of"]
    except (signing.BadSignature, KeyError, TypeError) as error:
        raise NotOurs("The cursor is not one of ours.") from error
    if made_for != _named(of):
        raise NotOurs("The cursor belongs to another list or to other filters. Begin without one.")
    return place


def _named(of: Sequence[Any]) -> str:
    return json.dumps(of, sort_keys=True)
