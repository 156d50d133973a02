"""This room bounds the requests of one token, and the wrong tokens of one address."""

from typing import Any, Final

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from access.buckets import Buckets
from access.peers import address_of
from access.tokens import Caller
from muster.kernel.addresses import network_of

REQUESTS_A_MINUTE: Final = 6_000
WRONG_TOKENS_A_MINUTE: Final = 120

requests_of_tokens = Buckets(REQUESTS_A_MINUTE, REQUESTS_A_MINUTE / 60)
wrong_tokens = Buckets(WRONG_TOKENS_A_MINUTE, WRONG_TOKENS_A_MINUTE / 60)
"""Each wrong token costs a look into the database: an address that sends many is refused before it."""


class TokenThrottle(BaseThrottle):
    """Counts per token in this web process; the answer above the rate is 429 with Retry-After."""

    def __init__(self) -> None:
        self._wait_s = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        caller = request.auth
        key = f"token {caller.token}" if isinstance(caller, Caller) else network_of(address_of(request))
        self._wait_s = requests_of_tokens.take(key)
        return self._wait_s == 0.0

    def wait(self) -> float:
        return self._wait_s
