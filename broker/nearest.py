"""This room knows who stands on which rack, and sends consumers to the replica that is nearest."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from broker.core.nearest_replica import nearest_follower, sent_to
from broker.fetch_answers import Answer
from broker.hosted import HostedPartition
from broker.replicas import DataPlane
from kafkaserver.cluster_answers import MetadataView
from muster.kafkawire.fetch_requests import AskedPartition
from muster.kernel.error_codes import ErrorCode

NOBODY: Final[frozenset[int]] = frozenset()


class NearestReplicas:
    """Where consumers of one broker's partitions may read as well, by the rack that they state (KIP-392)."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._view: MetadataView | None = None
        self._racks: Mapping[str, frozenset[int]] = {}
        self.sent_away = 0
        """How often a consumer was told to go on at a follower."""
        self.bytes_read = 0
        """Of records that consumers were sent by this broker as a follower."""

    def brokers_on(self, rack: str) -> frozenset[int]:
        """Brokers to which whoever stands on `rack` may be sent; none if this one stands there, too."""
        plane = self._plane
        if not rack or not plane.topics.sends_to_nearest:
            return NOBODY
        if self._view is not plane.view:
            self._view, self._racks = plane.view, _racks_of(plane.view)
        found = self._racks.get(rack, NOBODY)
        return NOBODY if plane.broker_id in found else found - plane.leaving

    def answer_for(
        self, hosted: HostedPartition, asked: AskedPartition, nearby: frozenset[int]
    ) -> Answer | None:
        """The answer that sends a reader to one of `nearby`, without records; None: it is served here."""
        now, replica = self._plane.clock(), hosted.replica
        limit = self._plane.settings.replica_lag_time_max_ms
        follower = nearest_follower(replica, nearby, asked.offset, now, limit)
        if follower is None:
            return None
        sent_to(replica, follower, now)
        self.sent_away += 1
        start_offset, high_watermark = hosted.log.start_offset, hosted.high_watermark
        return Answer(asked.partition, ErrorCode.NONE, high_watermark, start_offset, preferred=follower)


def _racks_of(view: MetadataView) -> Mapping[str, frozenset[int]]:
    racks: dict[str, set[int]] = defaultdict(set)
    for broker in view.brokers.values():
        if broker.rack:
            racks[broker.rack].add(broker.broker_id)
    return {rack: frozenset(brokers) for rack, brokers in racks.items()}
