"""What a broker tells row by row is bounded as it is read: a turn takes in whatever one frame says."""

from uuid import UUID

import msgspec
import pytest

from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.errors import RemoteMessageError
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.from_broker import (
    AlterPartition,
    Arriving,
    BrokerPing,
    FromBroker,
    HighWatermark,
    IsrProposal,
    UnusableLogs,
)
from muster.messages.link.log_ends import LogEnd, LogEnds
from muster.messages.link.losses import LossReport

ORDERS = UUID(int=1)
KEY = (ORDERS, 0)
PROPOSAL = IsrProposal(topic_id=ORDERS, partition=0, base_version=1, isr=(1,))
PING = BrokerPing(number=1, metadata_version=1)


@pytest.mark.parametrize(
    ("frame", "field", "row"),
    [
        (LogEnds(ends=()), "ends", LogEnd(ORDERS, 0, 1, 1, 5)),
        (AlterPartition(proposals=()), "proposals", PROPOSAL),
        (UnusableLogs(), "failed", KEY),
        (UnusableLogs(), "usable", KEY),
        (PING, "high_watermarks", HighWatermark(ORDERS, 0, 5)),
        (PING, "arriving", Arriving(ORDERS, 0, 5)),
        (PING, "losses", LossReport(ORDERS, 0, 1, 5, 5)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_frame_with_more_rows_is_malformed(frame: FromBroker, field: str, row: object) -> None:
    most = msgspec.structs.replace(frame, **{field: (row,) * MAX_ROWS_PER_FRAME})
    assert codec.decode_from_broker(codec.encode(most)) == most
    more = msgspec.structs.replace(frame, **{field: (row,) * (MAX_ROWS_PER_FRAME + 1)})
    with pytest.raises(RemoteMessageError) as refused:
        codec.decode_from_broker(codec.encode(more))
    assert refused.value.error_code is ErrorCode.MALFORMED_FRAME
