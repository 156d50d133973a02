"""This room asks the leaders of partitions where their logs begin and end, and what was written when.

Workers do so, with Kafka's own requests; a node never waits for a broker.
"""

import asyncio
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence

from controller.catalog import LedPartition
from muster.client.broker_connection import BrokerConnection, BrokerUnavailable
from muster.client.broker_questions import FoundOffset, Wanted, ask_offsets, read_offsets
from muster.kernel.error_codes import ErrorCode

ANSWER_WITHIN_S = 5.0
CLIENT_ID = "muster-worker"

Offsets = Mapping[tuple[str, int], int]
"""By topic and number."""


class NotFound(Exception):
    """A leader did not say what was asked; the text says which partition and why."""


def offsets_at(partitions: Sequence[LedPartition], timestamps: Sequence[int]) -> list[Offsets]:
    """For each timestamp (of ListOffsets) the offset of each partition; −1: no such record.

    Raises NotFound.
    """
    homeless = next((one for one in partitions if one.address is None), None)
    if homeless is not None:
        raise NotFound(f"nobody leads {homeless.topic}-{homeless.partition} now")
    return asyncio.run(_ask_all(partitions, timestamps))


async def _ask_all(partitions: Iterable[LedPartition], timestamps: Sequence[int]) -> list[Offsets]:
    led: dict[str, list[Wanted]] = {}
    for one in partitions:
        assert one.address is not None
        wanted = Wanted(one.topic, one.topic_id, one.partition, one.leader_epoch, 0)
        led.setdefault(one.address, []).append(wanted)
    answers = await asyncio.gather(*(_ask(address, led[address], timestamps) for address in sorted(led)))
    return [ChainMap(*of_leaders) for of_leaders in zip(*answers, strict=True)]


async def _ask(
    address: str, wanted: Sequence[Wanted], timestamps: Sequence[int]
) -> list[dict[tuple[str, int], int]]:
    try:
        connection = await BrokerConnection.open(address, CLIENT_ID)
        try:
            found = []
            for timestamp in timestamps:
                answer = await connection.ask(ask_offsets(wanted, timestamp), ANSWER_WITHIN_S)
                found.append({(one.topic, one.partition): _offset(one) for one in read_offsets(answer)})
            return found
        finally:
            connection.close()
    except BrokerUnavailable as problem:
        first = wanted[0]
        raise NotFound(
            f"the leader of {first.topic}-{first.partition} did not answer: {problem}"
        ) from problem


def _offset(one: FoundOffset) -> int:
    if one.error_code:
        raise NotFound(f"{one.topic}-{one.partition}: {ErrorCode(one.error_code).name}")
    return one.offset
