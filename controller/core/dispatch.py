"""This room turns what a turn changed into frames: one per broker, a snapshot in chunks (002 A.4, D.4)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, groupby
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from muster.messages.limits import MAX_ROWS_PER_CHANGES, MAX_ROWS_PER_FRAME
from muster.messages.link.losses import LossAsked
from muster.messages.link.quotas import QuotaRow
from muster.messages.link.rows import (
    AlikePartitions,
    BrokerConfigs,
    BrokerRow,
    PartitionKey,
    PartitionRow,
    TopicRow,
    UnusableAt,
)
from muster.messages.link.to_broker import Changes, SnapshotChunk

MAX_CONFIG_LETTERS_PER_FRAME: Final = 4 * 1024 * 1024
"""Of the configs of all topics in one frame, but that one topic's are told together."""


class AlikeChange(NamedTuple):
    """Partitions that a turn made alike, and the version of each before it.

    `assigned_before` is what all of them were assigned to; None: they are new.
    """

    assigned_before: tuple[int, ...] | None
    alike: AlikePartitions
    base_versions: tuple[int, ...]


class TurnChanges(NamedTuple):
    """Everything a turn changed, as all brokers must hear it."""

    metadata_version: int
    controller_epoch: int
    partitions: Sequence[AlikeChange]
    brokers: Sequence[BrokerRow]
    topics: Sequence[TopicRow]
    deleted_topics: tuple[UUID, ...] = ()
    configs: tuple[BrokerConfigs, ...] = ()
    quotas: tuple[QuotaRow, ...] = ()
    gone_brokers: tuple[int, ...] = ()
    losses: tuple[LossAsked, ...] = ()
    unusable: tuple[UnusableAt, ...] = ()


def frames_for(broker_ids: Iterable[int], turn: TurnChanges) -> dict[int, list[Changes]]:
    """What each broker is told: rows of its replicas as LeaderAndIsr or StopReplica, the others as metadata.

    One frame, also where nothing concerns the broker: it states the version of the turn in its pings.
    """
    # A topic is known before its first partition.
    topics = _topics_in_parts(turn.topics) or [()]
    changes, unusable = _in_parts(turn.partitions), _unusable_in_parts(turn.unusable, MAX_ROWS_PER_CHANGES)
    parts = [*([()] * max(len(topics) - 1, len(unusable) - len(changes))), *changes]
    frames: dict[int, list[Changes]] = {broker_id: [] for broker_id in broker_ids}
    for number, part in enumerate(parts):
        told = Changes(
            metadata_version=turn.metadata_version,
            controller_epoch=turn.controller_epoch,
            complete=number == len(parts) - 1,
            partitions=tuple(change.alike for change in part),
            brokers=tuple(turn.brokers) if number == 0 else (),
            topics=tuple(topics[number]) if number < len(topics) else (),
            deleted_topics=turn.deleted_topics if number == 0 else (),
            configs=turn.configs if number == 0 else (),
            quotas=turn.quotas if number == 0 else (),
            gone_brokers=turn.gone_brokers if number == 0 else (),
            losses=turn.losses if number == 0 else (),
            unusable=unusable[number] if number < len(unusable) else (),
        )
        concerned = _concerned(part)
        for broker_id, said in frames.items():
            said.append(_as_told_to(concerned[broker_id], told) if broker_id in concerned else told)
    return frames


def _in_parts(changes: Sequence[AlikeChange]) -> list[list[AlikeChange]]:
    """At most MAX_ROWS_PER_CHANGES partitions in each; one part at least."""
    parts: list[list[AlikeChange]] = [[]]
    room = MAX_ROWS_PER_CHANGES
    for change in changes:
        numbers = change.alike.partitions
        if len(numbers) <= room:
            parts[-1].append(change)
            room -= len(numbers)
            continue
        at = 0
        while at < len(numbers):
            if not room:
                parts.append([])
                room = MAX_ROWS_PER_CHANGES
            taken = numbers[at : at + room]
            alike = msgspec.structs.replace(change.alike, partitions=taken)
            parts[-1].append(change._replace(alike=alike))
            at += len(taken)
            room -= len(taken)
    return parts


class _Concern(NamedTuple):
    """Which changes of a part, by their places in it, begin or change replicas of a broker, or end them."""

    becomes: list[int]
    stops: list[int]


def _concerned(part: Sequence[AlikeChange]) -> Mapping[int, _Concern]:
    """By broker; gone through once for all of them, as thousands of changes may be told to many brokers."""
    found: defaultdict[int, _Concern] = defaultdict(lambda: _Concern([], []))
    for place, (assigned_before, alike, _) in enumerate(part):
        for broker_id in alike.assigned:
            found[broker_id].becomes.append(place)
        if assigned_before is not None and assigned_before != alike.assigned:
            for broker_id in set(assigned_before).difference(alike.assigned):
                found[broker_id].stops.append(place)
    return found


def _as_told_to(concern: _Concern, told: Changes) -> Changes:
    """The frame of a broker some of whose replicas are concerned; `told` is that of all others."""
    everything = told.partitions
    is_other = bytearray(b"\1") * len(everything)
    for place in chain(*concern):
        is_other[place] = 0
    return msgspec.structs.replace(
        told,
        leader_and_isr=tuple(everything[place] for place in concern.becomes),
        stop_replica=tuple(everything[place] for place in concern.stops),
        partitions=tuple(compress(everything, is_other)),
    )


def _topics_in_parts(topics: Sequence[TopicRow]) -> list[Sequence[TopicRow]]:
    """At most MAX_ROWS_PER_FRAME topics in each, and fewer where lists of replicas are set for them."""
    parts: list[Sequence[TopicRow]] = []
    begin = letters = 0
    for number, topic in enumerate(topics):
        letters_here = sum(map(len, topic.configs.values()))
        if number > begin and (
            number - begin == MAX_ROWS_PER_FRAME or letters + letters_here > MAX_CONFIG_LETTERS_PER_FRAME
        ):
            parts.append(topics[begin:number])
            begin, letters = number, 0
        letters += letters_here
    if topics:
        parts.append(topics[begin:])
    return parts


def unusable_news(
    before: Mapping[int, frozenset[PartitionKey]], now: Mapping[int, frozenset[PartitionKey]]
) -> tuple[UnusableAt, ...]:
    """What became of the logs that brokers cannot use, by broker and topic."""
    found = []
    for broker_id in sorted(before.keys() | now.keys()):
        old, new = before.get(broker_id, frozenset()), now.get(broker_id, frozenset())
        if new is old:
            # As in nearly every turn, and there may be thousands.
            continue
        failed, usable = _by_topic(new - old), _by_topic(old - new)
        found += [
            UnusableAt(broker_id, topic_id, tuple(failed.get(topic_id, ())), tuple(usable.get(topic_id, ())))
            for topic_id in sorted(failed.keys() | usable.keys())
        ]
    return tuple(found)


def _by_topic(keys: Iterable[PartitionKey]) -> dict[UUID, list[int]]:
    numbers: defaultdict[UUID, list[int]] = defaultdict(list)
    for topic_id, number in keys:
        numbers[topic_id].append(number)
    return {topic_id: sorted(found) for topic_id, found in numbers.items()}


def _unusable_in_parts(told: tuple[UnusableAt, ...], most: int) -> list[tuple[UnusableAt, ...]]:
    """At most so many logs in each: a whole disk may fail at once."""
    if sum(len(one.failed) + len(one.usable) for one in told) <= most:
        return [told] if told else []
    logs = [
        (one.broker_id, one.topic_id, number, has_failed)
        for one in told
        for numbers, has_failed in ((one.failed, True), (one.usable, False))
        for number in numbers
    ]
    parts = []
    for start in range(0, len(logs), most):
        part = []
        for (broker_id, topic_id), group in groupby(logs[start : start + most], key=lambda one: one[:2]):
            here = list(group)
            failed = tuple(number for _, _, number, has_failed in here if has_failed)
            usable = tuple(number for _, _, number, has_failed in here if not has_failed)
            part.append(UnusableAt(broker_id, topic_id, failed, usable))
        parts.append(tuple(part))
    return parts


def snapshot(
    metadata_version: int,
    brokers: Iterable[BrokerRow],
    topics: Iterable[TopicRow],
    partitions: Iterable[PartitionRow],
    configs: Iterable[BrokerConfigs] = (),
    quotas: Iterable[QuotaRow] = (),
    losses: Iterable[LossAsked] = (),
    unusable: tuple[UnusableAt, ...] = (),
) -> list[SnapshotChunk]:
    """Everything, in numbered chunks of at most MAX_ROWS_PER_FRAME rows of each kind."""
    all_brokers, all_partitions = tuple(brokers), tuple(partitions)
    all_configs, all_quotas, all_losses = tuple(configs), tuple(quotas), tuple(losses)
    topic_parts = _topics_in_parts(tuple(topics))
    unusable_parts = _unusable_in_parts(unusable, MAX_ROWS_PER_FRAME)
    longest = max(map(len, (all_brokers, all_partitions, all_configs, all_quotas, all_losses)))
    # Without a row there is a chunk, too: it says that there is nothing.
    chunk_count = max(len(topic_parts), len(unusable_parts))
    starts = range(0, max(longest, chunk_count * MAX_ROWS_PER_FRAME, 1), MAX_ROWS_PER_FRAME)
    return [
        SnapshotChunk(
            metadata_version=metadata_version,
            number=number,
            last=number == len(starts) - 1,
            brokers=all_brokers[start : start + MAX_ROWS_PER_FRAME],
            topics=tuple(topic_parts[number]) if number < len(topic_parts) else (),
            partitions=all_partitions[start : start + MAX_ROWS_PER_FRAME],
            configs=all_configs[start : start + MAX_ROWS_PER_FRAME],
            quotas=all_quotas[start : start + MAX_ROWS_PER_FRAME],
            losses=all_losses[start : start + MAX_ROWS_PER_FRAME],
            unusable=unusable_parts[number] if number < len(unusable_parts) else (),
        )
        for number, start in enumerate(starts)
    ]


def differs(before: PartitionRow, row: PartitionRow) -> bool:
    """True if a row says something else but its version."""
    return (
        before.leader_epoch != row.leader_epoch
        or before.leader != row.leader
        or before.isr != row.isr
        or before.assigned != row.assigned
        or before.adding != row.adding
        or before.removing != row.removing
        or before.throttle != row.throttle
        or before.unproven != row.unproven
    )
