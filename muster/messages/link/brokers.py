"""This room holds what is asked about one broker: no new replicas on it, or out of the cluster."""

import msgspec

from muster.kernel.error_codes import ErrorCode


class CordonBroker(msgspec.Struct, frozen=True, tag="CordonBroker", tag_field="type", kw_only=True):
    """Place no new replicas on a broker, or, not `cordoned`, place them there again.

    `expected_version`: of the broker's row as it was looked at; None: whatever it is.
    """

    correlation_id: int = 0
    broker_id: int
    cordoned: bool
    principal: str = ""
    expected_version: int | None = None


class UnregisterBroker(msgspec.Struct, frozen=True, tag="UnregisterBroker", tag_field="type", kw_only=True):
    """A broker that holds nothing is no part of the cluster any more, and its secret opens nothing."""

    correlation_id: int = 0
    broker_id: int
    principal: str = ""
    expected_version: int | None = None


class BrokerResult(msgspec.Struct, frozen=True, tag="BrokerResult", tag_field="type", kw_only=True):
    """Answers both; `version` is that of the broker's row from now on, 0 when it is gone or was refused."""

    correlation_id: int
    broker_id: int
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    version: int = 0
