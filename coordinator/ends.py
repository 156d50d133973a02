"""This room asks the leaders of partitions where their logs begin and end, and what was written when.

Workers do so, with Kafka's own requests; a node never waits for a broker.
"""

import asyncio
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence

from controller.catalog import LedPartition
from muster.client.broker_connection import BrokerConnection, BrokerNotTrusted, BrokerUnavailable
from muster.client.broker_questions import FoundOffset, Wanted, ask_offsets, read_offsets
from muster.client.securing import Security
from muster.kernel.error_codes import ErrorCode

ANSWER_WITHIN_S = 5.0
CLIENT_ID = "muster-worker"

Offsets = Mapping[tuple[str, int], int]
"""By topic and number."""


class NotFound(Exception):
    """A leader did not say what was asked; the text says which partition and why."""


class NotLetIn(Exception):
    """A leader and this worker do not trust each other, and will not before somebody changes that."""


def offsets_at(
    partitions: Sequence[LedPartition], timestamps: Sequence[int], security: Security
) -> list[Offsets]:
    """For each timestamp (of ListOffsets) the offset of each partition; −1: no such record.

    `security` is what brokers are shown that ask for it. Raises NotFound, NotLetIn.
    """
    homeless = next((one for one in partitions if one.address is None), None)
    if homeless is not None:
        raise NotFound(f"nobody leads {homeless.topic}-{homeless.partition} now")
    return asyncio.run(_ask_all(partitions, timestamps, security))


async def _ask_all(
    partitions: Iterable[LedPartition], timestamps: Sequence[int], security: Security
) -> list[Offsets]:
    led: dict[tuple[str, str], list[Wanted]] = {}
    for one in partitions:
        assert one.address is not None
        wanted = Wanted(one.topic, one.topic_id, one.partition, one.leader_epoch, 0)
        led.setdefault((one.address, one.security), []).append(wanted)
    answers = await asyncio.gather(
        *(_ask(address, security.told(told), led[address, told], timestamps) for address, told in sorted(led))
    )
    return [ChainMap(*of_leaders) for of_leaders in zip(*answers, strict=True)]


async def _ask(
    address: str, security: Security, wanted: Sequence[Wanted], timestamps: Sequence[int]
) -> list[dict[tuple[str, int], int]]:
    first = wanted[0]
    try:
        connection = await BrokerConnection.open(address, CLIENT_ID, security)
        try:
            found = []
            for timestamp in timestamps:
                answer = await connection.ask(ask_offsets(wanted, timestamp), ANSWER_WITHIN_S)
                found.append({(one.topic, one.partition): _offset(one) for one in read_offsets(answer)})
            return found
        finally:
            connection.close()
    except BrokerNotTrusted as problem:
        raise NotLetIn(f"the leader of {first.topic}-{first.partition}, {problem}") from problem
    except BrokerUnavailable as problem:
        raise NotFound(
            f"the leader of {first.topic}-{first.partition} did not answer: {problem}"
        ) from problem


def _offset(one: FoundOffset) -> int:
    if one.error_code:
        raise NotFound(f"{one.topic}-{one.partition}: {ErrorCode(one.error_code).name}")
    return one.offset
