"""This room keeps what the members of each group read: check sums by offset, and any disorder."""

import base64
import zlib
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

DISORDERS_TOLD = 20


def short_sum(value: bytes) -> int:
    """Sixteen bits of a record, never 0: that stands for one that nobody has read."""
    return zlib.crc32(value) & 0xFFFF or 1


class Seen:
    """Of one process; members of any number of groups write into it."""

    def __init__(self) -> None:
        self.sums: dict[str, dict[int, array[int]]] = {}
        self.disorders: list[str] = []
        self._at: dict[tuple[str, str, int], tuple[Any, int]] = {}

    def saw(self, group: str, member: str, tenure: Any, partition: int, offset: int, value: bytes) -> None:
        """A member read a record; `tenure` is another whenever it may have got the partition anew.

        Within a tenure each record is the next one of its partition.
        """
        place = (group, member, partition)
        before = self._at.get(place)
        if before is not None and before[0] == tenure and offset != before[1] + 1:
            self._tell(f"{member} of {group} read {partition}:{offset} after {before[1]}")
        self._at[place] = (tenure, offset)
        sums = self.sums.setdefault(group, {}).setdefault(partition, array("H"))
        if offset >= len(sums):
            sums.extend([0] * (offset + 1 - len(sums)))
        short = short_sum(value)
        if sums[offset] not in (0, short):
            self._tell(f"{member} of {group} read another record at {partition}:{offset}")
        sums[offset] = short

    def told(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "disorders": self.disorders,
            "sums": {
                group: {number: base64.b64encode(sums.tobytes()).decode() for number, sums in of.items()}
                for group, of in self.sums.items()
            },
        }

    def _tell(self, what: str) -> None:
        if len(self.disorders) < DISORDERS_TOLD:
            self.disorders.append(what)


def unread(
    log: Mapping[int, Iterable[bytes]], told: Iterable[Mapping[str, Any]], group: str
) -> tuple[int, int, int]:
    """Of a whole log: how many records the group read, never read, and read as something else."""
    good = missed = wrong = 0
    parts = [one["sums"].get(group, {}) for one in told]
    for number, values in log.items():
        read = [_sums(part[str(number)]) for part in parts if str(number) in part]
        for offset, value in enumerate(values):
            short = short_sum(value)
            found = {sums[offset] for sums in read if offset < len(sums) and sums[offset]}
            good += found == {short}
            missed += not found
            wrong += bool(found - {short})
    return good, missed, wrong


def _sums(encoded: str) -> "array[int]":
    made = array("H")
    made.frombytes(base64.b64decode(encoded))
    return made
