"""A stack is ready when a worker did something; workers that have ended are not waited for."""

import pytest

from standalone.probe import NoWorker, probe
from standalone.redis import Redis


def test_workers_that_have_ended_are_not_waited_for(fresh_database: str, redis_server: Redis) -> None:
    with pytest.raises(NoWorker, match="Every worker has ended"):
        probe(fresh_database, lambda: False)
