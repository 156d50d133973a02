"""This room lets a Kafka client prove who it is before anything else that it says is heard.

SCRAM-SHA-256, SCRAM-SHA-512, and PLAIN where nobody can listen; ApiVersions is answered to everybody, because
clients ask it first. What is known of callers is replaced as a whole whenever something was pushed.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from kafkaserver.cluster_answers import answer_api_versions
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    read_request,
    read_request_header,
    response_class,
)
from muster.kafkawire.errors import NotAdmitted
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scram import HASHES, ScramError, ServerSide, Verifier
from muster.kernel.token_text import TOKEN_BEGINS, read_token

PLAIN: Final = "PLAIN"
TOO_OLD: Final = "nobody has confirmed for too long who may come in"
REPLACED: Final = "the token of this name was replaced while it was proved"
_REFUSED: Final = "authentication failed"
_LENGTH = struct.Struct(">i")


class Credentials(Protocol):
    """What a door knows of those who may come in; `caller` is whatever its handlers ask about rights."""

    @property
    def are_fresh(self) -> bool:
        """False while nobody has confirmed for so long what is known that nobody new is let in by it."""

    def verifier(self, mechanism: str, user: str) -> Verifier:
        """Of this user; of a stranger one that nobody can prove, the same each time."""

    def caller(self, user: str) -> object | None:
        """Who a user is that has proved to be it; None if it may not come in (any more)."""

    def caller_of_token(self, user: str, presented: str) -> object | None:
        """Who shows this token under this name; None if nobody may."""


class Newcomer(Protocol):
    """Whoever speaks on one connection (kafkaserver.newcomers)."""

    def must_wait(self, name: str, than: object | None = None) -> bool:
        """Whether it may be known soon who bears this name; asked again and again until it is decided.

        `than`: whether it may be somebody other than this one.
        """

    def leave(self) -> None:
        """It is decided about, or gone."""


class _NotYet(Exception):
    """What was heard is to be heard again."""


class _Replaced(Exception):
    """What was asked of the client belongs to an older token than the one that bears the name now."""


def refuse(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    """Where nobody has to prove anything, or has proved it: the connection is past all that."""
    shape = response_class(header.api_key, header.api_version)
    if header.api_key == ApiKey.SASL_HANDSHAKE:
        body = build(shape, error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
    else:
        text = "this connection needs no authentication"
        body = build(shape, error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=text, auth_bytes=b"")
    reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))


@dataclass(frozen=True, slots=True)
class _Step:
    """One answer within an exchange; `caller` when it proved somebody."""

    answer: bytes = b""
    caller: object | None = None


class _Plain:
    """RFC 4616: one message with a name and a token, in the clear."""

    def __init__(self, credentials: Credentials, newcomer: Newcomer | None) -> None:
        self._credentials = credentials
        self._newcomer = newcomer
        self.user: str | None = None

    def hear(self, message: bytes) -> _Step | None:
        """None: refused. Raises _NotYet."""
        parts = message.split(b"\0")
        if len(parts) != 3:
            return None
        authorization, name, secret = parts
        if authorization not in (b"", name):
            return None
        try:
            user, token = name.decode(), secret.decode()
        except UnicodeDecodeError:
            return None
        self.user = user
        newcomer, read = self._newcomer, read_token(token)
        if newcomer is not None and read is not None and newcomer.must_wait(TOKEN_BEGINS + read[0]):
            raise _NotYet
        caller = self._credentials.caller_of_token(user, token)
        return None if caller is None else _Step(caller=caller)


class _Scram:
    """RFC 5802: two messages, and a proof instead of a secret."""

    def __init__(
        self, mechanism: str, credentials: Credentials, nonce: str, newcomer: Newcomer | None
    ) -> None:
        self._credentials = credentials
        self._newcomer = newcomer
        self._new_side = partial(ServerSide, mechanism, partial(credentials.verifier, mechanism), nonce)
        self._side = self._new_side()
        self._caller: object | None = None

    @property
    def user(self) -> str | None:
        """Who it says it is; None before that."""
        return self._side.user

    def hear(self, message: bytes) -> _Step | None:
        """None: refused. Raises _NotYet, _Replaced."""
        try:
            if self._side.user is None:
                answer = self._side.first(message)
                if self._newcomer is not None and self._newcomer.must_wait(self._side.user or ""):
                    self._side = self._new_side()
                    raise _NotYet
                self._caller = self._who()
                return _Step(answer)
            signature = self._side.second(message)
        except ScramError:
            return None
        if signature is None and self._may_be_replaced():
            raise _Replaced
        # Between both messages its token may have been taken back, or another one been made under its name.
        if signature is None or self._caller is None or self._who() != self._caller:
            return None
        return _Step(signature, self._caller)

    def _may_be_replaced(self) -> bool:
        """Whether what the client did not prove is an older token of this name. Raises _NotYet."""
        caller, newcomer = self._caller, self._newcomer
        if caller is not None and newcomer is not None and newcomer.must_wait(self._side.user or "", caller):
            raise _NotYet
        return self._who() not in (None, caller)

    def _who(self) -> object | None:
        user = self._side.user
        return None if user is None else self._credentials.caller(user)


class SaslGate:
    """One connection until its client has proved who it is (replies.Gate)."""

    def __init__(
        self,
        credentials: Credentials,
        new_nonce: Callable[[], str],
        *,
        plain: bool,
        newcomer: Newcomer | None = None,
    ) -> None:
        """`newcomer`: who is not known waits for news of it; without, it is refused at once."""
        self._credentials = credentials
        self._newcomer = newcomer
        self._new_nonce = new_nonce
        self._mechanisms = (*HASHES, PLAIN) if plain else tuple(HASHES)
        self._exchange: _Plain | _Scram | None = None
        self._is_bare = False
        self.admitted: object | None = None
        self.ended = ""
        self.held = b""

    def leave(self) -> None:
        """The connection is closed."""
        if self._newcomer is not None:
            self._newcomer.leave()

    def hear(self, frame: memoryview) -> bytes:
        """The whole frame to answer; b"": the connection is ended without an answer, or the frame is `held`.

        Raises KafkaWireError for what nobody may say here.
        """
        try:
            answer, self.held = self._hear(frame), b""
        except _NotYet:
            answer, self.held = b"", bytes(frame)
        except _Replaced:
            # It may hold the newer one, which has another salt: only a refusal would make it give up.
            answer, self.held, self.ended = b"", b"", REPLACED
        return answer

    def _hear(self, frame: memoryview) -> bytes:
        if not self._credentials.are_fresh:
            # To say that authentication failed would make clients give up: they come again after a hang-up.
            self.ended = TOO_OLD
            return b""
        if self._is_bare:
            return self._hear_bare(bytes(frame))
        header = read_request_header(frame)
        match header.api_key:
            case ApiKey.API_VERSIONS:
                return answer_api_versions(header)
            case ApiKey.SASL_HANDSHAKE:
                return self._begin(header, read_request(header, frame).mechanism)
            case ApiKey.SASL_AUTHENTICATE:
                return self._authenticate(header, bytes(read_request(header, frame).auth_bytes))
        raise NotAdmitted(f"{ApiKey(header.api_key).name} before its client has proved who it is")

    def _begin(self, header: RequestHeader, mechanism: str) -> bytes:
        error = ErrorCode.NONE
        if self._exchange is not None:
            error = ErrorCode.ILLEGAL_SASL_STATE
            self.ended = "a second SaslHandshake"
        elif mechanism not in self._mechanisms:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        elif mechanism == PLAIN:
            self._exchange = _Plain(self._credentials, self._newcomer)
        else:
            self._exchange = _Scram(mechanism, self._credentials, self._new_nonce(), self._newcomer)
        # After a handshake of version 0 the messages come without Kafka's header.
        self._is_bare = header.api_version == 0 and error is ErrorCode.NONE
        shape = response_class(header.api_key, header.api_version)
        body = build(shape, error_code=error, mechanisms=self._mechanisms)
        return encode_reply(header.api_key, header.api_version, header.correlation_id, body)

    def _authenticate(self, header: RequestHeader, message: bytes) -> bytes:
        shape = response_class(header.api_key, header.api_version)
        if self._exchange is None:
            self.ended = "SaslAuthenticate before SaslHandshake"
            code, text, step = ErrorCode.ILLEGAL_SASL_STATE, self.ended, _Step()
        elif (heard := self._exchange.hear(message)) is None:
            # Why, nobody is told: which of name and secret was wrong would be half of both.
            self.ended = self._why_refused()
            code, text, step = ErrorCode.SASL_AUTHENTICATION_FAILED, _REFUSED, _Step()
        else:
            code, text, step = ErrorCode.NONE, None, heard
            self.admitted = step.caller
        body = build(shape, error_code=code, error_message=text, auth_bytes=step.answer)
        return encode_reply(header.api_key, header.api_version, header.correlation_id, body)

    def _why_refused(self) -> str:
        """For our own log. A name that nobody bears is not repeated there: it may be a misplaced token."""
        user = self._exchange.user if self._exchange is not None else None
        if user is None:
            return f"{_REFUSED}: what was said is not its mechanism's"
        if self._credentials.caller(user) is None:
            return f"{_REFUSED}: there is no living token of that name"
        return f"{_REFUSED}: {user} did not prove its token"

    def _hear_bare(self, message: bytes) -> bytes:
        assert self._exchange is not None
        step = self._exchange.hear(message)
        if step is None:
            raise NotAdmitted(self._why_refused())
        self.admitted = step.caller
        return _LENGTH.pack(len(step.answer)) + step.answer
