"""This room holds what the demo's consumers saw against what was produced, by pure functions.

A line of evidence is `partition offset tenure key`. A tenure is one partition fetched by one member
without a break; a member that lost its session begins a new one at the committed offset.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seen:
    """One record that a consumer wrote down before it asked for the next."""

    partition: int
    offset: int
    tenure: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of the demo, and whether it was kept; `detail` says what was counted or what is wrong."""

    promise: str
    kept: bool
    detail: str


def line(seen: Seen) -> bytes:
    """The line that stands for `seen` in a file of evidence."""
    return b"%d %d %d %s\n" % (seen.partition, seen.offset, seen.tenure, seen.key)


def read(path: Path) -> list[Seen]:
    """All whole lines of a file of evidence; a torn last line, left by kill -9, was not yet evidence."""
    seen = []
    for text in path.read_bytes().splitlines(keepends=True):
        if text.endswith(b"\n"):
            partition, offset, tenure, key = text[:-1].split(b" ", 3)
            seen.append(Seen(int(partition), int(offset), int(tenure), key))
    return seen


def every_record_was_consumed(
    produced: Mapping[tuple[int, int], bytes],
    placeless: Sequence[bytes],
    evidence: Mapping[str, Sequence[Seen]],
    flights: int,
) -> Check:
    """Each acknowledged (partition, offset) was seen at least once, with the key that was produced there.

    Of what librdkafka took for acknowledged, because a later batch was, each key was seen at another place.
    """
    promise = "every flight was consumed at least once"
    seen = {(one.partition, one.offset): one.key for member in evidence.values() for one in member}
    elsewhere = Counter(key for place, key in seen.items() if place not in produced)
    lost = Counter(placeless) - elsewhere
    missing = [place for place in produced if place not in seen]
    wrong = [place for place, key in produced.items() if place in seen and seen[place] != key]
    again = sum(len(member) for member in evidence.values()) - len(seen)
    acknowledged = len(produced) + Counter(placeless).total()
    if acknowledged != flights:
        return Check(
            promise, False, f"{acknowledged} of {flights} flights were acknowledged, at a place of their own"
        )
    if lost:
        return Check(promise, False, f"{lost.total()} acknowledged without a place were not seen")
    if missing or wrong:
        return Check(
            promise, False, f"{len(missing)} not seen, {len(wrong)} with another key: {(missing + wrong)[:5]}"
        )
    return Check(promise, True, f"{acknowledged} flights, {again} of them more than once")


def order_holds_within_each_tenure(evidence: Mapping[str, Iterable[Seen]]) -> Check:
    """Within one member's tenure of a partition offsets rise by one from record to record."""
    promise = "in order within each member's tenure of a partition"
    tenures = 0
    broken = []
    for member, lines in evidence.items():
        last: dict[tuple[int, int], int] = {}
        for one in lines:
            before = last.get((one.partition, one.tenure))
            tenures += before is None
            if before is not None and one.offset != before + 1:
                broken.append(f"{member}: {before} then {one.offset} of partition {one.partition}")
            last[(one.partition, one.tenure)] = one.offset
    return Check(promise, not broken, "; ".join(broken[:5]) if broken else f"{tenures} tenures")


def committed_to_the_end(committed: Mapping[int, int], ends: Mapping[int, int]) -> Check:
    """Each committed offset equals the end offset of its partition."""
    promise = "every committed offset equals the end offset"
    behind = [
        f"{place}: {committed.get(place)} of {end}"
        for place, end in ends.items()
        if committed.get(place) != end
    ]
    return Check(
        promise,
        not behind and bool(ends),
        "; ".join(behind) if behind else f"{sum(ends.values())} in {len(ends)} partitions",
    )


def all_in_sync(in_sync: Mapping[int, Sequence[int]], replicas: int) -> Check:
    """Each partition has all its replicas in sync."""
    promise = f"every partition has its {replicas} replicas in sync"
    short = [f"{place}: {sorted(isr)}" for place, isr in in_sync.items() if len(isr) != replicas]
    return Check(
        promise, not short and bool(in_sync), "; ".join(short) if short else f"{len(in_sync)} partitions"
    )


def logs_are_equal(topic: str, replicas: Mapping[int, Mapping[str, Path]]) -> Check:
    """The bytes of each partition's log are the same on every broker that holds it."""
    promise = "the logs of all replicas of a partition are equal"
    different = []
    size_bytes = 0
    for partition, folders in replicas.items():
        logs: dict[bytes, list[str]] = defaultdict(list)
        for broker, folder in folders.items():
            segments = sorted((folder / f"{topic}-{partition}").glob("*.log"))
            log = b"".join(segment.read_bytes() for segment in segments)
            logs[log].append(broker)
        size_bytes += sum(len(log) for log in logs)
        if len(logs) != 1 or b"" in logs:
            different.append(
                f"{topic}-{partition}: " + ", ".join(f"{len(log)} bytes at {at}" for log, at in logs.items())
            )
    detail = "; ".join(different[:2]) if different else f"{size_bytes / 1e6:.1f} MB in {len(replicas)} logs"
    return Check(promise, not different and bool(replicas), detail)
