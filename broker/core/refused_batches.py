"""This room remembers whose batch was refused here, so that no producer is blamed for a gap of our making.

A producer has several batches under way. Is one refused because this broker does not lead yet, or because
too few are in sync, and the next one judged a moment later, that one is out of sequence by our doing. Told
so, a client begins a new epoch and sends again, under new numbers, all that is not acknowledged, of other
partitions, too: what of it is stored is stored twice then (`gap_is_told`). And of a producer that is not
known yet any sequence is taken: its client concludes that the batch before is stored as well, and
acknowledges what was refused (`gap_is_taken`). So whoever stands behind a refused batch is refused for the
same reason until that one comes again: clients send all of them once more, in their order. A batch that was
stored, and refused while it waited for replicas, counts as refused, too: another leader may cut it off here
(`cut_is_told`). Each connection has its own line: what lies in one that its producer gave up says nothing of
the next one.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from broker.core.producers import REMEMBERED_BATCHES, SEQUENCE_MASK, Producers
from muster.kafkawire.batches import NO_PRODUCER, BatchHeader
from muster.kernel.error_codes import ErrorCode

SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that say that nothing was stored, and after which a producer sends the same batch again."""

_BEHIND_STORED: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What is told behind a batch that was stored, refused with these, and cut off: of this one nothing was."""

MOST_REFUSED: Final = 10_000
"""So many are remembered, two for each partition of a producer; the oldest is forgotten first."""

_LONGEST_NAME: Final = 249
"""No topic has a longer one, whatever a stranger asks for."""

_MOST_BEHIND: Final = REMEMBERED_BATCHES - 1
_ANYWHERE: Final = ""

_HALF: Final = SEQUENCE_MASK // 2

Place = tuple[str, int]
"""Topic and partition."""


class _Refused(NamedTuple):
    """The first batch that was refused; `left`: how many more may have been under way behind it."""

    epoch: int
    sequence: int
    error_code: ErrorCode
    left: int


class RefusedBatches:
    """The refused batches of one broker, by partition, producer and the address that it sends from."""

    __slots__ = ("_most", "_refused")

    def __init__(self, most: int = MOST_REFUSED) -> None:
        self._most = most
        self._refused: OrderedDict[tuple[Place, int, str], _Refused] = OrderedDict()
        """From _ANYWHERE as well: who comes over another connection each time may insist, too."""

    def __len__(self) -> int:
        return len(self._refused)

    def note(
        self,
        place: Place,
        peer: str,
        header: BatchHeader,
        error_code: ErrorCode,
        producers: Producers | None = None,
    ) -> None:
        """This batch, which `peer` sent, was refused with an error of SENT_AGAIN, or after it was stored.

        `producers` are those of the partition's log, if there is one: where it has gone past the line that
        is known, another one begins. Of one that was stored they say nothing.
        """
        if header.producer_id <= NO_PRODUCER or len(place[0]) > _LONGEST_NAME:
            return
        error_code = _BEHIND_STORED.get(error_code, error_code)
        is_past = producers is not None and not producers.leaves_a_gap(header)
        for whence in (peer, _ANYWHERE):
            key, sequence, left = (place, header.producer_id, whence), header.base_sequence, _MOST_BEHIND
            before = self._refused.get(key)
            if before is not None and before.left and _is_behind(header, before) and not is_past:
                sequence, left = before.sequence, before.left - 1
            self._refused[key] = _Refused(header.producer_epoch, sequence, error_code, left)
            self._refused.move_to_end(key)
        while len(self._refused) > self._most:
            self._refused.popitem(last=False)

    def in_the_way(
        self, place: Place, peer: str, header: BatchHeader, producers: Producers
    ) -> ErrorCode | None:
        """Why this batch is to be refused, too; None: by what is known here it may be judged.

        NONE: so it may, and is the one that was refused. `producers` are those of the partition's log.
        """
        is_sent_again = False
        for whence in (peer, _ANYWHERE):
            key = (place, header.producer_id, whence)
            before = self._refused.get(key)
            if before is None:
                continue
            if before.left and _is_behind(header, before) and producers.leaves_a_gap(header):
                if whence == peer:
                    return before.error_code
                continue
            # It is the refused one, or the log has gone past it, or its producer begins again, here or anew.
            del self._refused[key]
            is_sent_again |= (header.producer_epoch, header.base_sequence) == (before.epoch, before.sequence)
        return ErrorCode.NONE if is_sent_again else None


def _is_behind(header: BatchHeader, refused: _Refused) -> bool:
    distance = (header.base_sequence - refused.sequence) & SEQUENCE_MASK
    return header.producer_epoch == refused.epoch and 0 < distance <= _HALF
