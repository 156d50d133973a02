"""This room holds the two ways a conversation breaks: we broke the language, or they did."""

from muster.kernel.error_codes import ErrorCode

POLICY_VIOLATION_CLOSE = 1008
MESSAGE_TOO_BIG_CLOSE = 1009
INVALID_PAYLOAD_CLOSE = 1007
GOING_AWAY_CLOSE = 1001
NORMAL_CLOSE = 1000


class LocalMessageError(Exception):
    """Our own side tried to send what the language does not allow; a bug here, never the peer's fault."""


class RemoteMessageError(Exception):
    """The peer sent what the language does not allow; the door closes the connection with `close_code`."""

    def __init__(self, text: str, *, close_code: int, error_code: ErrorCode) -> None:
        super().__init__(text)
        self.close_code = close_code
        self.error_code = error_code
