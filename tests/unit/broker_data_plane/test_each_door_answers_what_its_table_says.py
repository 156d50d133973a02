"""What ApiVersions advertises is what clients are answered; the door of followers knows one request."""

import struct
from pathlib import Path

import pytest

from broker.introduction import framed
from muster.kafkawire.api_table import SERVED, ApiKey
from tests.unit.broker_data_plane.planes import broker, client, follower
from tests.unit.kafkawire.test_unknown_tags_are_skipped import NO_TAGS, UNKNOWN_TAGS, frame


async def test_clients_are_answered_what_is_advertised_and_nothing_else(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        assert one.client.answered == SERVED.keys()


@pytest.mark.parametrize("key", sorted(SERVED.keys() - {ApiKey.FETCH}))
async def test_a_follower_that_asks_anything_but_records_is_cut_off(tmp_path: Path, key: int) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        two.write(framed(struct.pack(">hhih", key, SERVED[key].minimum, 1, -1)))
        with pytest.raises(EOFError):
            await two.hear()


async def test_whoever_says_more_than_is_known_is_answered_as_without_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_CONFIGS):
            plain, said = (
                framed(bytes(frame(key, SERVED[key].maximum, tags)[1])) for tags in (NO_TAGS, UNKNOWN_TAGS)
            )
            assert await ann.exchange(said) == await ann.exchange(plain)
