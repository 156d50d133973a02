"""This room says which shard a group belongs to."""

from zlib import crc32

from runtime.ports import SHARD_COUNT


def shard_of(group_id: str) -> int:
    """The shard of a group: crc32 of its name modulo 64 (design chapter 4.1)."""
    return crc32(group_id.encode()) % SHARD_COUNT
