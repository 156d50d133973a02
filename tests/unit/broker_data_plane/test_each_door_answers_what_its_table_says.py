"""What ApiVersions advertises is what clients are answered; the door of followers knows one request."""

import struct
from pathlib import Path

import pytest

from broker.introduction import framed
from muster.kafkawire.api_table import SERVED, ApiKey
from tests.unit.broker_data_plane.planes import broker, follower


async def test_clients_are_answered_what_is_advertised_and_nothing_else(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        assert one.client.answered == SERVED.keys()


@pytest.mark.parametrize("key", sorted(SERVED.keys() - {ApiKey.FETCH}))
async def test_a_follower_that_asks_anything_but_records_is_cut_off(tmp_path: Path, key: int) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        two.write(framed(struct.pack(">hhih", key, SERVED[key].minimum, 1, -1)))
        with pytest.raises(EOFError):
            await two.hear()
