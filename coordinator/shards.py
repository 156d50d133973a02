"""This room says which shard a group belongs to."""

from muster.kernel.shards import shard_of as shard_of
