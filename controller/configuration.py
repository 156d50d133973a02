"""This room reads the controller's settings from the environment; `muster.kernel.settings` declares them."""

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings as django_settings

from controller.core.settings import ControllerSettings
from muster.kernel.environment import Environment
from muster.kernel.settings import DECLARED


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the core decides with, and how long a broker may be behind before its link is renewed."""

    core: ControllerSettings = field(default_factory=ControllerSettings)
    ack_timeout_ms: int = 30_000


def from_environment(given: Mapping[str, str] = os.environ) -> ServiceSettings:
    """Read the settings; what is not set keeps its default. Raises SettingError."""
    environment = Environment(given, DECLARED)
    return ServiceSettings(
        ControllerSettings(
            broker_session_timeout_ms=environment.number("MUSTER_BROKER_SESSION_TIMEOUT_MS"),
            closed_link_timeout_ms=environment.number("MUSTER_BROKER_CLOSED_LINK_TIMEOUT_MS"),
            default_partition_count=environment.number("MUSTER_NUM_PARTITIONS"),
            default_replication_factor=environment.number("MUSTER_DEFAULT_REPLICATION_FACTOR"),
            default_min_insync_replicas=environment.number("MUSTER_MIN_INSYNC_REPLICAS"),
            default_unclean_leader_election=environment.switch("MUSTER_UNCLEAN_LEADER_ELECTION_ENABLE"),
            auto_leader_rebalance=environment.switch("MUSTER_AUTO_LEADER_REBALANCE_ENABLE"),
            leader_imbalance_per_broker_percentage=environment.number(
                "MUSTER_LEADER_IMBALANCE_PER_BROKER_PERCENTAGE"
            ),
            leader_imbalance_check_interval_ms=environment.number(
                "MUSTER_LEADER_IMBALANCE_CHECK_INTERVAL_MS"
            ),
            unproven_patience_ms=environment.number("MUSTER_UNPROVEN_PATIENCE_MS"),
            replication_key=replication_key(django_settings.SECRET_KEY),
        ),
        ack_timeout_ms=environment.number("MUSTER_CONTROLLER_ACK_TIMEOUT_MS"),
    )


def replication_key(secret_key: str) -> str:
    """The key that brokers share, from the secret that all nodes share: it is stored nowhere."""
    return hmac.new(secret_key.encode(), b"muster replication listener", "sha256").hexdigest()
