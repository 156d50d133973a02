"""However partitions are paused, sought, dealt, ended, resumed: each is handed out in order, once."""

import asyncio
import random
from uuid import UUID

import pytest

from muster.client import clock
from muster.client.fetching import Fetching, FetchOptions
from muster.client.processing import Hand, Processing
from muster.client.tenure import Stream, Tenure
from muster.kernel.instants import Instant
from tests.unit.client.test_a_poisoned_batch_is_named_and_can_be_passed import at
from tests.unit.kafkawire.made_batches import made_batch

LOG_END = 12
BATCH = 3
LOG = [at(first, made_batch([b"v"] * BATCH)) for first in range(0, LOG_END, BATCH)]
STREAMS = [Stream("orders", "ann-0"), Stream("orders", "ann-1")]


class Application:
    """Two readers of two partitions; `expected` is the next offset of each that may be handed out."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.fetching = Fetching(FetchOptions("tests"), lambda tenure: None, lambda: None)
        self.processing = Processing(self.fetching, lambda now: True)
        self.hands: list[Hand] = [self.processing.open_hand(stream) for stream in STREAMS]
        self.expected = [0, 0]
        self.tenures = [Tenure("orders", UUID(int=1), number, 1, 0, number + 1) for number in range(2)]
        for number, tenure in enumerate(self.tenures):
            tenure.stream = STREAMS[number]
            self.fetching.start(tenure)

    def fetch(self) -> None:
        """The pumps have brought what there is."""
        for tenure in self.tenures:
            if not tenure.ended and not tenure.has_news and 0 <= tenure.fetched_to < LOG_END:
                tenure.accept(LOG[tenure.fetched_to // BATCH])
                self.fetching.interrupt()

    def asks(self, reader: int, times: int) -> None:
        for _ in range(times):
            self.fetch()
            self.take(self.hands[reader])

    def take(self, hand: Hand) -> None:
        """It takes what is there, and waits for nothing."""

        async def look() -> None:
            looking = asyncio.create_task(hand.prepare())
            for _ in range(4):
                await asyncio.sleep(0)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

        record = hand.take()
        if record is None:
            self.loop.run_until_complete(look())
            record = hand.take()
        if record is not None:
            tenure = self.tenures[record.partition]
            assert record.offset == self.expected[record.partition], "in order, and nothing left out"
            assert not tenure.ended and not tenure.resting
            assert tenure.delivered_to == record.offset + 1
            self.expected[record.partition] += 1

    def pauses_or_resumes(self, number: int) -> None:
        tenure = self.tenures[number]
        tenure.paused = not tenure.paused
        if tenure.paused:
            self.processing.let_go(tenure)
        elif not tenure.ended:
            self.fetching.look_again(tenure)

    def seeks(self, number: int, offset: int) -> None:
        if not self.tenures[number].ended:
            self.fetching.seek(self.tenures[number], offset)
            self.expected[number] = offset

    def is_dealt(self, number: int, reader: int) -> None:
        tenure = self.tenures[number]
        tenure.stream = STREAMS[reader]
        if not tenure.ended:
            self.processing.let_go(tenure)
            self.fetching.look_again(tenure)

    def ends(self, number: int) -> None:
        self.fetching.stop(self.tenures[number].key)

    def comes_back(self, number: int) -> None:
        """Nobody else had it: it goes on where the application is."""
        tenure = self.tenures[number]
        if tenure.ended:
            tenure.resume(2)
            self.fetching.start(tenure)

    def goes_away_from_its_record(self, reader: int) -> None:
        """Its handler raised: what was not finished comes again."""
        hand = self.hands[reader]
        held = hand.in_hand
        self.processing.dismiss(hand)
        self.hands[reader] = self.processing.open_hand(STREAMS[reader])
        if held is not None and not held.ended:
            self.expected[held.partition] = held.finished_to

    def check(self) -> None:
        """One reader holds a partition."""
        held = [hand.in_hand.of for hand in self.hands if hand.in_hand is not None]
        assert len(held) == len(set(held))
        assert all(tenure.finished_to <= tenure.delivered_to for tenure in self.tenures)


@pytest.mark.parametrize("first", range(0, 150, 30))
def test_each_partition_is_handed_out_in_order_by_one_reader(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time stands still: no reader's turn is over because this machine is slow.
    monkeypatch.setattr(clock, "now", lambda: Instant(1))
    for seed in range(first, first + 30):
        walk(random.Random(seed))


def walk(dice: random.Random) -> None:
    """What an application may meet, in any order."""
    application = Application()
    for _ in range(60):
        number = dice.randrange(2)
        match dice.choices(("ask", "pause", "seek", "deal", "end", "return", "raise"), (8, 1, 1, 2, 1, 2, 1)):
            case ["ask"]:
                application.asks(number, dice.randint(1, 4))
            case ["pause"]:
                application.pauses_or_resumes(number)
            case ["seek"]:
                application.seeks(number, dice.randint(0, LOG_END))
            case ["deal"]:
                application.is_dealt(number, dice.randrange(2))
            case ["end"]:
                application.ends(number)
            case ["return"]:
                application.comes_back(number)
            case ["raise"]:
                application.goes_away_from_its_record(number)
        application.check()
    application.loop.close()
