"""This room counts for /metrics what a broker's replicas and its clients do."""

from broker.core.replica import Role
from broker.listener import ClientListener
from broker.replicas import DataPlane
from broker.replication import Replication
from kafkaserver.compiled import running
from kafkaserver.guard import Guard
from kafkaserver.quotas import ClientQuotas
from kafkaserver.strangers import IN_ALL, OF_ONE_ADDRESS
from kafkaserver.version import own_version


def samples_of_replicas(plane: DataPlane, followers: Replication) -> dict[str, float]:
    """Of what this broker holds, by role, and of what it fetches from others."""
    roles = dict.fromkeys(Role, 0)
    live, now, limit = plane.live, plane.clock(), plane.settings.replica_lag_time_max_ms
    refusing = 0
    for hosted in plane.partitions():
        roles[hosted.replica.role] += 1
        refusing += hosted.replica.leads and not hosted.replica.enough_in_sync(live, now, limit)
    disk = plane.upkeep.disk
    return {
        **{f'muster_broker_partitions{{role="{role.value}"}}': n for role, n in roles.items()},
        "muster_broker_partitions_under_min_insync": refusing,
        "muster_broker_epoch": followers.broker_epoch,
        "muster_broker_logs_not_compacted": plane.cleaner.given_up,
        "muster_broker_disk_usable_bytes": -1 if disk is None else disk.usable_bytes,
        "muster_broker_replica_fetched_bytes_total": sum(
            peer.bytes_fetched for peer in followers.peers.values()
        ),
    }


def samples_of_guard(guard: Guard) -> dict[str, float]:
    """Of who may come in, and of the certificate, if it has one whose end is known."""
    samples: dict[str, float] = {"muster_broker_callers_age_ms": guard.age_ms}
    if guard.certificate is not None and guard.certificate.ends_at is not None:
        samples["muster_broker_certificate_ends_seconds"] = guard.certificate.ends_at
    return samples


def samples_of_clients(listener: ClientListener, quotas: ClientQuotas) -> dict[str, float]:
    """Of the door of producers and consumers, of sessions, and of whom quotas made wait."""
    server, sessions = listener.server, listener.fetches.sessions
    counters = server.counters
    waits = quotas.throttled.items()
    return {
        f'muster_broker_build_info{{version="{own_version()}"}}': 1,
        "muster_broker_compiled_modules": running.modules,
        "muster_broker_client_connections": server.connection_count,
        "muster_broker_client_connections_total": counters.accepted,
        "muster_broker_client_connections_refused_total": counters.refused,
        "muster_broker_client_requests_total": counters.requests,
        "muster_broker_client_malformed_total": counters.malformed,
        "muster_broker_client_greedy_total": counters.greedy,
        "muster_broker_client_strangers": server.stranger_count,
        "muster_broker_client_late_total": counters.late,
        **{
            f'muster_broker_client_crowding_total{{why="{why}"}}': counters.crowding.get(why, 0)
            for why in (OF_ONE_ADDRESS, IN_ALL)
        },
        'muster_broker_client_not_admitted_total{why="unproved"}': counters.unproved,
        'muster_broker_client_not_admitted_total{why="tls"}': counters.without_tls,
        "muster_broker_client_accept_pauses_total": counters.accept_pauses,
        "muster_broker_client_request_bytes_held": server.memory.held_bytes,
        "muster_broker_client_parked_partitions": server.parked_elements,
        "muster_broker_client_mute": server.mute_count,
        "muster_broker_fetch_sessions": len(sessions),
        "muster_broker_fetch_session_partitions": sessions.partitions,
        "muster_broker_fetch_sessions_evicted_total": sessions.evicted,
        "muster_broker_consumers_sent_to_followers_total": listener.fetches.nearest.sent_away,
        "muster_broker_client_fetched_from_followers_bytes_total": listener.fetches.nearest.bytes_read,
        **{f'muster_broker_client_throttled_total{{quota="{kind}"}}': said.answers for kind, said in waits},
        **{
            f'muster_broker_client_throttled_seconds_total{{quota="{kind}"}}': said.wait_ms / 1000
            for kind, said in waits
        },
    }
