"""This room bounds the requests of one token, or of one address without a token."""

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from access.tokens import Caller


class TokenThrottle(SimpleRateThrottle):
    """Counts per token in this web process; the answer above the rate is 429 with Retry-After."""

    scope = "token"

    def get_cache_key(self, request: Request, view: Any) -> str:
        caller = request.auth
        ident = f"token:{caller.token}" if isinstance(caller, Caller) else self.get_ident(request)
        return self.cache_format % {"scope": self.scope, "ident": ident}
