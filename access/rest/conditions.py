"""This room reads what makes a write of REST conditional: If-Match, and the key that does it once."""

import re
from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from access.rest.problems import Problem
from muster.kernel.error_codes import ErrorCode

_KEY: Final = re.compile(r"[\x21-\x7e]{1,64}")
_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e]{1,200})"')

IDEMPOTENCY_KEY: Final = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 64 characters of yours. The same request under the same key is carried out once, and"
    " answered the same for 7 days, whatever If-Match says by then; another request under it is 422.",
)


def if_match_parameter(what: str, *, required: bool = True) -> OpenApiParameter:
    """How the document names If-Match; `what` is the row whose ETag is meant, with its article."""
    return OpenApiParameter(
        "If-Match",
        OpenApiTypes.STR,
        OpenApiParameter.HEADER,
        required=required,
        description=f"The ETag of {what} as you know it; `*`: whatever it is now.",
    )


def tag_of(request: Request, what: str) -> str | None:
    """The tag that If-Match names, without its quotes; None: `*`. Raises Problem 428, 400."""
    header = request.headers.get("If-Match", "").strip()
    if not header:
        raise Problem(428, f"Say in If-Match which version of {what} you know, or `*`.")
    if header == "*":
        return None
    found = _TAG.fullmatch(header)
    if found is None:
        raise not_a_tag(what)
    return found[1]


def not_a_tag(what: str) -> Problem:
    """The refusal of an If-Match that is no ETag of such a row."""
    return Problem(400, f"If-Match must be one ETag of {what}, or `*`.", ErrorCode.INVALID_REQUEST)


def idempotency_key(request: Request) -> str | None:
    """The key that the caller gave this request, if any. Raises Problem 400."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise Problem(400, "Idempotency-Key must be 1 to 64 visible ASCII characters.")
    return key
