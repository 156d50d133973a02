"""A Redis of ours that is full refuses what is new; what waits in it for a worker stays."""

import pytest
import redis

from standalone.redis import Redis


def test_what_waits_stays_where_memory_is_used_up(redis_server: Redis) -> None:
    with redis.Redis.from_url(redis_server.url) as link:
        link.rpush("muster", "work")
        link.expire("muster", 3_600)
        link.config_set("maxmemory", int(link.info("memory")["used_memory"]) + 1_000_000)
        with pytest.raises(redis.OutOfMemoryError):
            for number in range(1_000):
                link.set(f"filler-{number}", bytes(10_000), ex=3_600)
        assert link.lrange("muster", 0, -1) == [b"work"]
