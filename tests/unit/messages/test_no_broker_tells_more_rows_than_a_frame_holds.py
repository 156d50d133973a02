"""What a broker tells row by row is bounded as it is read: a turn takes in whatever one frame says."""

from collections.abc import Callable
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.errors import RemoteMessageError
from muster.messages.limits import MAX_FRAME_FROM_BROKER_BYTES, MAX_ROWS_PER_FRAME, MAX_UNUSABLE_PER_HELLO
from muster.messages.link.condition import MOST_THROTTLED, Condition, LagNote, LogNote, ThrottledClient
from muster.messages.link.from_broker import (
    AlterPartition,
    Arriving,
    BrokerHello,
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


HELLO = BrokerHello(broker_id=1, incarnation="a", endpoints={})
CLIENT = ThrottledClient("ann", None, "produce", 1, 1, 1, 1)
NUMBERED = {number: 1 for number in range(MAX_ROWS_PER_FRAME + 1)}
NAMED = {f"name-{number}": "" for number in NUMBERED}

_Tell = Callable[[int], FromBroker]


def _ping(condition: Condition) -> BrokerPing:
    return replace(PING, condition=condition)


def _propose(**stated: Any) -> AlterPartition:
    return AlterPartition(proposals=(replace(PROPOSAL, **stated),))


def _first(entries: dict[Any, Any], count: int) -> dict[Any, Any]:
    return dict(islice(entries.items(), count))


@pytest.mark.parametrize(
    ("most", "tell"),
    [
        pytest.param(MAX_ROWS_PER_FRAME, tell, id=name)
        for name, tell in {
            "ends": lambda n: LogEnds(ends=(LogEnd(ORDERS, 0, 1, 1, 5),) * n),
            "proposals": lambda n: AlterPartition(proposals=(PROPOSAL,) * n),
            "isr of a proposal": lambda n: _propose(isr=(1,) * n),
            "epochs of a proposal": lambda n: _propose(broker_epochs=_first(NUMBERED, n)),
            "failed": lambda n: UnusableLogs(failed=(KEY,) * n),
            "usable": lambda n: UnusableLogs(usable=(KEY,) * n),
            "high watermarks": lambda n: replace(PING, high_watermarks=(HighWatermark(ORDERS, 0, 5),) * n),
            "arriving": lambda n: replace(PING, arriving=(Arriving(ORDERS, 0, 5),) * n),
            "losses": lambda n: replace(PING, losses=(LossReport(ORDERS, 0, 1, 5, 5),) * n),
            "notes of logs": lambda n: _ping(Condition(logs=(LogNote(ORDERS, 0, "offline"),) * n)),
            "notes of who lags": lambda n: _ping(Condition(lags=(LagNote(ORDERS, 0, (1, 2)),) * n)),
            "who lags": lambda n: _ping(Condition(lags=(LagNote(ORDERS, 0, (1,) * n),))),
            "damaged logs": lambda n: replace(HELLO, damaged_logs=(KEY,) * n),
            "endpoints": lambda n: replace(HELLO, endpoints=_first(NAMED, n)),
            "static configs": lambda n: replace(HELLO, static_configs=_first(NAMED, n)),
        }.items()
    ]
    + [
        pytest.param(
            MAX_UNUSABLE_PER_HELLO, lambda n: replace(HELLO, unusable_logs=(KEY,) * n), id="unusable"
        ),
        pytest.param(MOST_THROTTLED, lambda n: _ping(Condition(throttled=(CLIENT,) * n)), id="throttled"),
    ],
)
def test_a_frame_with_more_rows_is_malformed(most: int, tell: _Tell) -> None:
    frame = codec.encode(tell(most))
    assert codec.decode_from_broker(frame) == tell(most) and len(frame) < MAX_FRAME_FROM_BROKER_BYTES
    with pytest.raises(RemoteMessageError) as refused:
        codec.decode_from_broker(codec.encode(tell(most + 1)))
    assert refused.value.error_code is ErrorCode.MALFORMED_FRAME
