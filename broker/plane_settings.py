"""This room holds the settings that a data plane obeys, of all that a broker is started with."""

from dataclasses import dataclass, field

from broker.log.outcomes import LogSettings
from broker.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class DataPlaneSettings:
    """Kafka's broker settings of the same names."""

    log: LogSettings = field(default_factory=LogSettings)
    replica_lag_time_max_ms: int = 30_000
    stray_retention_ms: int = 24 * 3600 * 1000
    file_delete_delay_ms: int = 60_000
    reserve_bytes: int = 0
    """With less room on the disk nothing is taken from producers."""


def of_the_plane(settings: BrokerSettings) -> DataPlaneSettings:
    """What this broker was told in its environment."""
    log = LogSettings(segment_bytes=settings.log_segment_bytes, max_message_bytes=settings.message_max_bytes)
    return DataPlaneSettings(
        log=log,
        replica_lag_time_max_ms=settings.replica_lag_time_max_ms,
        stray_retention_ms=settings.stray_retention_ms,
        file_delete_delay_ms=settings.file_delete_delay_ms,
        reserve_bytes=settings.log_reserve_bytes,
    )
