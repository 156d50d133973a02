"""A metric counts the partitions at whose leader acks=all is refused, whatever the rows say of the ISR."""

from pathlib import Path

from broker.replication import Replication
from broker.samples import samples_of_replicas
from broker.settings import from_environment
from tests.unit.broker_data_plane.planes import ORDERS, broker

COUNTED = "muster_broker_partitions_under_min_insync"


async def test_a_leader_whose_followers_are_away_counts_what_it_refuses(tmp_path: Path) -> None:
    """The floor keeps followers in the ISR: by the rows nothing is wrong with the partition."""
    named = {"MUSTER_BROKER_ID": "1", "MUSTER_NODES": "ws://127.0.0.1:9301", "MUSTER_BROKER_SECRET": "s3cret"}
    settings = from_environment({**named, "MUSTER_BROKER_DATA": str(tmp_path)})
    async with broker(tmp_path, 1) as one:
        one.obey(1, replicas=(1, 2))
        leads, plane = one.plane.hosted(ORDERS, 0), one.plane
        assert leads is not None
        leads.replica.require(2)
        followers = Replication(plane, settings)
        plane.live = {1, 2}
        assert samples_of_replicas(plane, followers)[COUNTED] == 0
        plane.live = {1}
        assert samples_of_replicas(plane, followers)[COUNTED] == 1
        one.obey(2, replicas=(1, 2), epoch=2)
        assert samples_of_replicas(plane, followers)[COUNTED] == 0, "who follows refuses for another reason"
