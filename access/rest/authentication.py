"""This room proves tokens at REST doors; a session is never accepted there, so no cookie acts by itself."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from access.peers import address_of, network_of
from access.rest.throttling import wrong_tokens
from access.service import bearer, verify
from access.tokens import Caller


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer mst_…`; `request.auth` becomes the Caller. Anything else is 401.

    An address that sent too many wrong ones is 429 before anything is looked up.
    """

    def authenticate(self, request: Request) -> tuple[Any, Caller] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if not header:
            return None
        stranger = network_of(address_of(request))
        wait_s = wrong_tokens.wait_s(stranger)
        if wait_s:
            raise Throttled(wait_s, "Too many wrong tokens came from this address.")
        text = bearer(header)
        caller = verify(text) if text else None
        if caller is None:
            wrong_tokens.take(stranger)
            raise AuthenticationFailed("The token is unknown, expired or taken back.")
        return None, caller

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="muster"'


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Says in the OpenAPI document how a token is sent."""

    target_class = "access.rest.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
