"""This room reads the bodies of REST: JSON whose every text can be written again as UTF-8."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any, Final, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

_HALF_A_CHARACTER: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""A surrogate as JSON writes it; it takes two to be a character."""


class JsonBody(BaseParser):
    """JSON as RFC 8259 has it: what no door could store, word or tell back is the sender's mistake."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the body says. Raises ParseError, which is 400."""
        raw = stream.read()
        try:
            body = json.loads(
                raw.decode(), parse_constant=_refuse_constant, object_pairs_hook=_refuse_doubles
            )
            if _HALF_A_CHARACTER.search(raw):
                json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ParseError("A text of the body holds half of a surrogate pair.") from error
        except RecursionError as error:
            raise ParseError("The body is nested too deeply.") from error
        except ValueError as error:
            raise ParseError(f"The body is no JSON in UTF-8: {error}") from error
        return body


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that stands twice in an object, whatever looked at it on the way may have read the other."""
    stated = dict(pairs)
    if len(stated) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ParseError(f"An object of the body states {twice[:60]!r} twice.")
    return stated


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
