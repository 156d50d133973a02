"""This room remembers in which leader epoch each partition was led here last, and where its log ended then.

A log shows the epoch of its last batch alone: who led, wrote nothing, and let batches of before count as
committed would come behind one that wrote a batch which nobody took (ADR 22).
"""

from typing import NamedTuple

from broker.core.leader_epochs import NO_EPOCH
from broker.core.replica import Replica
from muster.messages.link.rows import PartitionKey, PartitionRow


class Led(NamedTuple):
    """The log ended at `end_offset` when this broker began to lead in `leader_epoch`."""

    leader_epoch: int
    end_offset: int


class LedEpochs:
    """By partition, the last of them. Where the log was empty nothing was committed: that is not named."""

    def __init__(self) -> None:
        self.led: dict[PartitionKey, Led] = {}
        self.news: dict[PartitionKey, Led] = {}
        """Of them, what is to be noted on disk before anybody is served."""

    def look(self, key: PartitionKey, replica: Replica) -> None:
        """The replica of `key` has obeyed a row of another leader or leader epoch."""
        if not replica.leads or not replica.epoch_start_offset:
            return
        known = self.led.get(key)
        if known is None or known.leader_epoch < replica.leader_epoch:
            self.led[key] = self.news[key] = Led(replica.leader_epoch, replica.epoch_start_offset)

    def forget(self, key: PartitionKey) -> None:
        """Its log is set aside."""
        self.led.pop(key, None)
        self.news.pop(key, None)

    def shown_for(self, row: PartitionRow, log_end_offset: int) -> int:
        """The epoch up to whose beginning the log surely holds all that was committed; −1: none is known.

        One that ends before it did then was cut, and may lack some of it (`cut_is_overlooked`). What has
        grown again came from a later leader, which held all of it.
        """
        led = self.led.get(row.key)
        if led is None or led.leader_epoch <= row.base_epoch or log_end_offset < led.end_offset:
            return NO_EPOCH
        return led.leader_epoch
