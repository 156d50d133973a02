"""This room proves tokens at REST doors; a session is never accepted there, so no cookie acts by itself."""

from time import monotonic
from typing import Any, Final

from django.db import connection
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from access.peers import address_of
from access.rest.throttling import wrong_tokens
from access.service import TokenMap, bearer, token_map, verify
from access.tokens import Caller
from muster.kernel.addresses import network_of

KNOWN_FOR_MS: Final = 1_000


class _Known:
    """The living tokens as they were at most a second ago: they tell right from wrong without a look each.

    Only asked for addresses over their bound: whoever shares one with a stranger still comes in.
    """

    def __init__(self) -> None:
        self._map = TokenMap({})
        self._read_at = float("-inf")

    def holds(self, text: str) -> bool:
        """True if `text` is a living token."""
        now = monotonic()
        if now - self._read_at > KNOWN_FOR_MS / 1000:
            connection.ensure_connection()
            self._map, self._read_at = token_map(connection.connection), now
        return self._map.verify(text) is not None

    def forget(self) -> None:
        """Read anew when next asked."""
        self._read_at = float("-inf")


living_tokens = _Known()


def prove(request: Any) -> Caller | None:
    """Who sent a request, by its `Authorization: Bearer mst_…`; None without that header.

    Raises AuthenticationFailed for a wrong token, Throttled for one more wrong one of an address that sent
    too many; a right token is never refused for what others at its address send.
    """
    header = request.META.get("HTTP_AUTHORIZATION")
    if not header:
        return None
    text = bearer(header)
    stranger = network_of(address_of(request))
    wait_s = wrong_tokens.wait_s(stranger)
    if wait_s and not (text and living_tokens.holds(text)):
        raise Throttled(wait_s, "Too many wrong tokens came from this address.")
    caller = verify(text) if text else None
    if caller is None:
        wrong_tokens.take(stranger)
        raise AuthenticationFailed("The token is unknown, expired or taken back.")
    return caller


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer mst_…`; `request.auth` becomes the Caller. Anything else is 401 or 429."""

    def authenticate(self, request: Request) -> tuple[Any, Caller] | None:
        caller = prove(request)
        return None if caller is None else (None, caller)

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="muster"'


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Says in the OpenAPI document how a token is sent."""

    target_class = "access.rest.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
