"""This room reads the cluster's standing once for a request, however many parts of its page ask."""

from dataclasses import dataclass

from django.http import HttpRequest

from controller import findings, leases, queries

_KEPT = "_cluster_standing"


@dataclass(frozen=True, slots=True)
class ClusterStanding:
    """Brokers, how safe the data is, and what is wrong with either."""

    brokers: list[queries.BrokerRow]
    health: queries.Health
    findings: list[findings.Finding]

    @property
    def live(self) -> list[int]:
        return queries.live_ids(row.broker for row in self.brokers)

    @property
    def fenced(self) -> list[queries.BrokerRow]:
        return [row for row in self.brokers if row.attention]


def keep(request: HttpRequest, standing: ClusterStanding) -> None:
    """Let the request go on with a standing that was read before and is still true."""
    setattr(request, _KEPT, standing)


def of(request: HttpRequest) -> ClusterStanding:
    """The standing as this request read it first."""
    if not hasattr(request, _KEPT):
        brokers = queries.brokers()
        health = queries.health(queries.live_ids(row.broker for row in brokers))
        found = findings.most_urgent_first(findings.find(brokers, health, leases.orphans(), leases.work()))
        setattr(request, _KEPT, ClusterStanding(brokers, health, found))
    kept: ClusterStanding = getattr(request, _KEPT)
    return kept
