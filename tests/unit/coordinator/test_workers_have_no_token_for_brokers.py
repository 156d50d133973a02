"""Where brokers ask for a token a reset of offsets is refused with the reason, as no leader is away."""

from typing import Any
from uuid import UUID

from controller.catalog import LedPartition
from coordinator.tasks import _found
from groups.core.requests import ResetOffsets, Scope
from muster.kernel.error_codes import ErrorCode


def test_nobody_is_asked_and_the_reason_is_told(settings: Any) -> None:
    settings.MUSTER_KAFKA_SASL = True
    # Nobody listens at this address: whoever asked would tell of a leader that did not answer.
    led = [LedPartition("orders", UUID(int=1), 0, 1, 4, "127.0.0.1:1")]
    found = _found(ResetOffsets("latest"), (Scope("orders"),), led, {})
    assert (found.error, found.partitions) == (ErrorCode.SASL_AUTHENTICATION_FAILED, ())
    assert "MUSTER_KAFKA_SASL" in found.text and "Ask again" not in found.text
