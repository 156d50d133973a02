"""An answer that is longer than a broker reads ends its link, and that of each broker that is asked next."""

from controller.core.quotas import MOST_QUOTAS
from muster.kernel.client_quotas import NAME_LENGTH, USER
from muster.kernel.error_codes import ErrorCode
from muster.messages.codec import encode
from muster.messages.limits import MAX_FRAME_TO_BROKER_BYTES
from muster.messages.link.from_broker import ElectLeaders
from muster.messages.link.quotas import (
    AlterClientQuotas,
    ClientQuotas,
    DescribeClientQuotas,
    QuotaAlteration,
    QuotaOperation,
)
from muster.messages.link.rows import TopicRow
from muster.messages.link.to_broker import ElectionResults
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, row, said

PARTITIONS = 100_000
"""What a cluster is built for."""
LOOKED_AT = 500


def test_an_election_of_every_partition_with_the_longest_names() -> None:
    cluster = Cluster([row(number, (1, 2), 2, (2,)) for number in range(LOOKED_AT)])
    cluster.state.rows.topics[ORDERS] = TopicRow(ORDERS, "x" * 249, LOOKED_AT, 2)
    (answer,) = said(cluster.turn(heard("link-3a", ElectLeaders(correlation_id=1))), "link-3a")
    assert isinstance(answer, ElectionResults) and len(answer.results) == LOOKED_AT
    assert {one.error for one in answer.results} == {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert len(encode(answer)) / LOOKED_AT * PARTITIONS < MAX_FRAME_TO_BROKER_BYTES


def test_all_quotas_of_the_longest_names() -> None:
    cluster = Cluster(brokers=1)
    rate = (QuotaOperation("producer_byte_rate", 2.0**53 - 1),)
    longest = tuple(
        QuotaAlteration(((USER, chr(0x1F600 + number) * NAME_LENGTH), ("client-id", "é" * NAME_LENGTH)), rate)
        for number in range(10)
    )
    cluster.turn(heard("link-1a", AlterClientQuotas(alterations=longest)))
    (answer,) = said(cluster.turn(heard("link-1a", DescribeClientQuotas())), "link-1a")
    assert isinstance(answer, ClientQuotas) and len(answer.quotas) == len(longest)
    assert len(encode(answer)) / len(longest) * MOST_QUOTAS < MAX_FRAME_TO_BROKER_BYTES
