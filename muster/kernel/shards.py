"""This room says which shard a group belongs to; every door of the cluster must find the same."""

from typing import Final
from zlib import crc32

SHARD_COUNT: Final = 64


def shard_of(group_id: str) -> int:
    """The shard of a group: crc32 of its name modulo 64 (design chapter 4.1)."""
    return crc32(group_id.encode()) % SHARD_COUNT
