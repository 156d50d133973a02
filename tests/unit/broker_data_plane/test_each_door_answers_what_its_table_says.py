"""What ApiVersions advertises is what is answered, at both doors of a broker."""

from pathlib import Path

from muster.kafkawire.api_table import SERVED
from tests.unit.broker_data_plane.planes import broker


async def test_clients_are_answered_what_is_advertised_and_nothing_else(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        assert one.client.answered == SERVED.keys()
