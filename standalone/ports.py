"""This room hands out the ports of a stack: those it was asked for, those it had before, or free ones."""

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from standalone.children import MOST_PORTS, StartError, free_ports

# Seen from PORT: the pages, then nodes, then the three listeners of each broker, then the servers, then the
# Kafka listeners of nodes.
NODES_FROM, CLIENTS_FROM, REPLICATION_FROM, PROBES_FROM, POSTGRES_AT, REDIS_AT = 1, 10, 100, 200, 300, 301
GROUPS_FROM = 310
MOST_NODES, MOST_BROKERS = CLIENTS_FROM - NODES_FROM, REPLICATION_FROM - CLIENTS_FROM


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one stack on 127.0.0.1; a broker has one for clients, one for brokers, one for probes."""

    web: int
    nodes: tuple[int, ...]
    brokers: tuple[tuple[int, int, int], ...]
    postgres: int = 0
    redis: int = 0
    groups: tuple[int, ...] = ()
    """Kafka listeners of the nodes, which coordinate groups."""

    @classmethod
    def of(cls, found: Mapping[str, int], nodes: int, brokers: int) -> "Ports":
        """By the names that `names` gives."""
        return cls(
            web=found["web"],
            nodes=tuple(found[f"node-{number}"] for number in range(1, nodes + 1)),
            brokers=tuple(
                (found[f"broker-{one}"], found[f"broker-{one} replication"], found[f"broker-{one} probes"])
                for one in range(1, brokers + 1)
            ),
            postgres=found["postgres"],
            redis=found["redis"],
            groups=tuple(found[f"node-{number} groups"] for number in range(1, nodes + 1)),
        )

    @property
    def web_url(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.web}"

    @property
    def node_addresses(self) -> list[str]:
        """Where members and brokers connect."""
        return [f"ws://127.0.0.1:{port}" for port in self.nodes]

    @property
    def bootstrap(self) -> str:
        """What a Kafka client is told."""
        return ",".join(f"127.0.0.1:{client}" for client, _, _ in self.brokers)


def names(nodes: int, brokers: int) -> list[str]:
    """Everything of a stack that listens."""
    return [
        "web",
        *(f"node-{number}{which}" for number in range(1, nodes + 1) for which in ("", " groups")),
        *(
            f"broker-{one}{which}"
            for one in range(1, brokers + 1)
            for which in ("", " replication", " probes")
        ),
        *("postgres", "redis"),
    ]


def asked_for(first: int, nodes: int, brokers: int) -> dict[str, int]:
    """Where everything listens whose pages are at ``first``. Raises StartError for a port that is taken."""
    if nodes > MOST_NODES or brokers > MOST_BROKERS:
        raise StartError(
            f"PORT= has room for {MOST_NODES} nodes and {MOST_BROKERS} brokers; without it there is more."
        )
    wanted = {"web": first, "postgres": first + POSTGRES_AT, "redis": first + REDIS_AT}
    wanted |= {f"node-{number}": first + NODES_FROM + number - 1 for number in range(1, nodes + 1)}
    wanted |= {f"node-{number} groups": first + GROUPS_FROM + number - 1 for number in range(1, nodes + 1)}
    for one in range(1, brokers + 1):
        wanted[f"broker-{one}"] = first + CLIENTS_FROM + one - 1
        wanted[f"broker-{one} replication"] = first + REPLICATION_FROM + one - 1
        wanted[f"broker-{one} probes"] = first + PROBES_FROM + one - 1
    for name in names(nodes, brokers):
        if reason := why_taken(wanted[name]):
            raise StartError(f"PORT={first}: {name} cannot listen on {wanted[name]} ({reason}).")
    return wanted


def as_before(before: Mapping[str, int], nodes: int, brokers: int) -> tuple[dict[str, int], list[str]]:
    """The ports that the home remembers, and free ones for the rest; says which are other ones now.

    Raises StartError for more than 1,000.
    """
    wanted = names(nodes, brokers)
    kept = {name: before[name] for name in wanted if name in before and not why_taken(before[name])}
    missing = [name for name in wanted if name not in kept]
    if len(missing) > MOST_PORTS:
        raise StartError(f"So many processes need {len(missing)} ports; a stack has at most {MOST_PORTS}.")
    remembered = set(before.values())
    fresh: list[int] = []
    while len(fresh) < len(missing):
        fresh += [port for port in free_ports(len(missing)) if port not in remembered and port not in fresh]
    found = kept | dict(zip(missing, fresh, strict=False))
    moved = [
        f"{name} listens on {found[name]} now; {before[name]} is taken by somebody else"
        for name in missing
        if name in before
    ]
    return found, moved


def why_taken(port: int) -> str:
    """Why nobody of ours could listen there on 127.0.0.1; empty if one could."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As every server does: connections that ended a moment ago are in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return "it is taken" if error.errno == errno.EADDRINUSE else str(error.strerror)
    return ""
