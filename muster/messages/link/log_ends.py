"""This room holds how brokers show their logs where a database that was set back may name the wrong ones."""

from typing import Annotated, Final
from uuid import UUID

import msgspec

from muster.messages.limits import FRAMEFUL

NOT_NOTED: Final = -2
"""In the place of a leader epoch."""


class LogEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far one replica's log goes; it neither grows nor is cut before another leader is elected.

    `leader_epoch` is that of the unproven row that this answers. `last_epoch` is that of the log's last
    batch, −1 if there never was one. `proven_version` is the version of the last row that was not unproven
    which this process has obeyed for the partition (`broker.core.proven_rows`); 0: it cannot tell.
    `led_epoch` is the one in which the broker led the partition last, −1 if there is none or the log was cut
    since (`broker.core.led_epochs`); −2: a broker of before notes none.
    """

    topic_id: UUID
    partition: int
    leader_epoch: int
    last_epoch: int
    end_offset: int
    start_offset: int = 0
    proven_version: int = 0
    led_epoch: int = NOT_NOTED


class LogEnds(msgspec.Struct, frozen=True, tag="LogEnds", tag_field="type", kw_only=True):
    """Said once on each link, behind its snapshot, and where a row becomes unproven, or is another.

    At most MAX_ROWS_PER_FRAME logs. One that has failed, cannot be opened or was given up is not named.
    """

    ends: Annotated[tuple[LogEnd, ...], FRAMEFUL]
