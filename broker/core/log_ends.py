"""This room says how far a replica's log goes where a row asks, as nobody can tell yet who leads."""

from broker.core.led_epochs import LedEpochs
from broker.core.replica import Replica, Role
from muster.messages.link.log_ends import LogEnd
from muster.messages.link.rows import PartitionRow


def end_for(row: PartitionRow, replica: Replica | None, led: LedEpochs) -> LogEnd | None:
    """What is shown behind `row`, which was obeyed; None: nothing.

    Not asked for; or the log is not here, has failed, or was given up: nobody knows what it held
    (`failed_is_shown`). Behind a newer row that one is answered.
    """
    if not row.is_unproven or replica is None or replica.role is not Role.OFFLINE or replica.row is not row:
        return None
    log = replica.log
    epoch, start, led_epoch = row.leader_epoch, log.start_offset, led.shown_for(row, log.end_offset)
    ends = log.last_epoch, log.end_offset, start
    return LogEnd(row.topic_id, row.partition, epoch, *ends, replica.proven_version, led_epoch)
