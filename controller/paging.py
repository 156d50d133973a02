"""This room pages through numbered rows: which of them are shown, and where those before and after begin."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest

from access.filters import DoesNotFit, Filter, number_filter, read_filters


@dataclass(frozen=True, slots=True)
class Window:
    """`size` rows of `total`, from place `first` on, in the list that `query` asks for."""

    first: int
    size: int
    total: int
    query: Mapping[str, Any] = field(default_factory=dict)
    by: str = "from"
    """What the address calls the place: a page may hold two such lists."""

    @property
    def last(self) -> int:
        """The place behind the last row that is shown."""
        return min(self.first + self.size, self.total)

    @property
    def before(self) -> str:
        """The query of the rows before; empty: these are the first."""
        return self._at(max(0, self.first - self.size)) if self.first else ""

    @property
    def following(self) -> str:
        """The query of the rows behind; empty: these are the last."""
        return self._at(self.last) if self.last < self.total else ""

    def _at(self, place: int) -> str:
        return "?" + urlencode(
            {name: value for name, value in {**self.query, self.by: place}.items() if value}
        )


def window(asked: Mapping[str, Any], size: int, total: int, **query: Any) -> Window:
    """The rows that an address asks for; a place past the end is the first page."""
    first = asked.get("from", 0)
    return Window(first if first < total else 0, size, total, query)


def asked_of(request: HttpRequest, begin: str, *filters: Filter) -> dict[str, Any]:
    """What the address asks by these filters, and `from`. Raises BadRequest, which says where to `begin`."""
    known: Iterable[Filter] = (*filters, number_filter("from", "Rows before those that are shown."))
    values = {name: str(value).strip() for name, value in request.GET.items() if str(value).strip()}
    try:
        return read_filters(values, known)
    except DoesNotFit as error:
        raise BadRequest(f"{error} Begin at {begin}.") from error
