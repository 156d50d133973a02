"""Offsets of Kafka clients ride in the batch that native commits ride in, each with its note."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from coordinator.classic_commits import LAST_DAY_MS, ClassicCommit, Committed, Stated
from coordinator.core.events import GroupEvent, TopicsChanged
from coordinator.core.memory import ClassicSession
from coordinator.core.offsets import Judgement
from groups.core.classic import ClassicMember, ClassicRows
from groups.core.phases import Phase
from groups.core.records import GroupRecord, OffsetsDeleted
from groups.core.state import GroupRows, OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from muster.messages.partitions import Partition, Position
from runtime import clock, database_clock
from tests.unit.coordinator.shards import Caller, Shards, eventually, readers
from tests.unit.coordinator_core.group import orders

KEY = "readers"
P = [orders(number) for number in range(3)]


def classic(key: str = KEY) -> GroupRows:
    """A stable group of generation 1 whose member is ann."""
    ann = ClassicMember(
        member_id="ann", session_timeout_ms=9_000, rebalance_timeout_ms=9_000, protocols=(("range", b""),)
    )
    rows = ClassicRows("consumer", "range", "ann", {"ann": ann})
    return GroupRows(key, generation=1, version=1, phase=Phase.STABLE, protocol="classic", classic=rows)


def asked(
    positions: Mapping[Partition, Committed],
    answers: list[Judgement],
    *,
    key: str = KEY,
    member_id: str = "ann",
    generation: int = 1,
) -> ClassicCommit:
    """What a Kafka client asks; what it hears is put to `answers`."""
    return ClassicCommit(
        key=key,
        connection=Caller("a client").id,
        member_id=member_id,
        group_instance_id=None,
        generation=generation,
        stated=Stated.of(positions),
        answer=answers.append,
    )


async def commit(
    shards: Shards,
    positions: Mapping[Partition, Committed],
    *,
    key: str = KEY,
    member_id: str = "",
    generation: int = -1,
) -> Judgement:
    """What a Kafka client hears."""
    service, answers = await shards.serve(key), list[Judgement]()
    assert service.commit(asked(positions, answers, key=key, member_id=member_id, generation=generation))
    await eventually(lambda: answers)
    assert service._orders._lines == {}
    return answers[0]


async def test_a_member_commits_offsets_with_their_notes() -> None:
    async with Shards([classic()]) as shards:
        noted = {P[0]: Committed(7, 2, "a note"), P[1]: Committed(8)}
        assert (await commit(shards, noted, member_id="ann", generation=1)).error is ErrorCode.NONE
        cached = shards.services[shard_of(KEY)]._groups.states[KEY].rows
        for rows in (shards.rows(KEY), cached):
            assert dict(rows.offsets) == {P[0]: 7, P[1]: 8}
            assert dict(rows.offset_notes) == {P[0]: OffsetNote(2, "a note")}


async def test_a_commit_is_a_sign_of_life() -> None:
    async with Shards([classic()]) as shards:
        service = await shards.serve(KEY)
        before = service._groups.states[KEY].classic
        assert before.heard_at == {}
        await commit(shards, {P[0]: Committed(7)}, member_id="ann", generation=1)
        assert service._groups.states[KEY].classic.heard_at.keys() == {"ann"}
        assert isinstance(before.sessions["ann"], ClassicSession)


async def test_of_two_commits_in_one_batch_the_last_counts_be_it_without_a_note() -> None:
    async with Shards([classic(), readers("others", ben=[0])]) as shards:
        service, others = await shards.serve(KEY), await shards.registered("others", "ben")
        answers: list[Judgement] = []
        for offset, metadata in ((1, "first"), (2, "")):
            assert service.commit(
                asked({P[0]: Committed(offset, metadata=metadata), P[1]: Committed(5, 1)}, answers)
            )
        shards.commit(others, "others", {P[0]: Position(3, 1)})
        await eventually(lambda: len(answers) == 2 and others.judged)
        assert dict(shards.rows(KEY).offsets) == {P[0]: 2, P[1]: 5}
        assert dict(shards.rows(KEY).offset_notes) == {P[1]: OffsetNote(1)}
        assert dict(shards.rows("others").offsets) == {P[0]: 3}


@pytest.mark.parametrize(("member_id", "generation"), [("ann", 1), ("", -1)])
async def test_a_negative_offset_takes_back_what_was_committed(member_id: str, generation: int) -> None:
    async with Shards([classic()] if member_id else []) as shards:
        who: dict[str, Any] = {"member_id": member_id, "generation": generation}
        await commit(shards, {P[0]: Committed(7, 2, "a note"), P[1]: Committed(8)}, **who)
        judgement = await commit(
            shards, {P[0]: Committed(-2), P[1]: Committed(9), P[2]: Committed(-1)}, **who
        )
        assert (judgement.error, judgement.refused) == (ErrorCode.NONE, {})
        cached = shards.services[shard_of(KEY)]._groups.states[KEY].rows
        for rows in (shards.rows(KEY), cached):
            assert (dict(rows.offsets), dict(rows.offset_notes)) == ({P[1]: 9}, {})
        await commit(shards, {P[0]: Committed(0)}, **who)
        assert dict(shards.rows(KEY).offsets) == {P[0]: 0, P[1]: 9}


async def test_of_what_is_committed_in_one_batch_the_negative_offset_counts_if_it_came_last() -> None:
    async with Shards([classic()]) as shards:
        service, answers = await shards.serve(KEY), list[Judgement]()
        for offset in (1, -2, 3, -2):
            assert service.commit(asked({P[0]: Committed(offset), P[1]: Committed(abs(offset))}, answers))
        await eventually(lambda: len(answers) == 4)
        assert [one.error for one in answers] == [ErrorCode.NONE] * 4
        assert dict(shards.rows(KEY).offsets) == {P[1]: 2}


async def test_who_may_not_commit_takes_nothing_back() -> None:
    async with Shards([classic()]) as shards:
        await commit(shards, {P[0]: Committed(7)}, member_id="ann", generation=1)
        refused = [("ann", 0), ("ben", 1), ("", -1)]
        for member_id, generation in refused:
            who: dict[str, Any] = {"member_id": member_id, "generation": generation}
            judgement = await commit(shards, {P[0]: Committed(-2)}, **who)
            assert judgement.error is not ErrorCode.NONE
        assert dict(shards.rows(KEY).offsets) == {P[0]: 7}


async def test_what_could_not_be_taken_back_is_not_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turn was refused, but another event with it was decided, so that the group was there again."""
    async with Shards([classic()]) as shards:
        who: dict[str, Any] = {"member_id": "ann", "generation": 1}
        await commit(shards, {P[0]: Committed(7)}, **who)
        service = await shards.serve(KEY)
        save, turn = shards.store.save, service._commits._turn

        def save_no_deletion(to: Any, key: str, before: GroupRows, said: Sequence[GroupRecord]) -> None:
            if any(isinstance(one, OffsetsDeleted) for one in said):
                raise ValueError("a mistake of ours")
            save(to, key, before, said)

        def turn_with_another(key: str, events: Sequence[GroupEvent]) -> None:
            turn(key, events)
            asyncio.get_running_loop().call_soon(service._hand_in, key, TopicsChanged())

        monkeypatch.setattr(shards.store, "save", save_no_deletion)
        monkeypatch.setattr(service._commits, "_turn", turn_with_another)
        judgement = await commit(shards, {P[0]: Committed(-2), P[1]: Committed(9)}, **who)
        assert judgement.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert dict(shards.rows(KEY).offsets) == {P[0]: 7}


async def test_a_group_that_nobody_knows_begins_with_the_first_offsets() -> None:
    async with Shards() as shards:
        assert (await commit(shards, {P[0]: Committed(7)})).error is ErrorCode.NONE
        rows = shards.rows(KEY)
        assert (rows.protocol, rows.phase, rows.version, dict(rows.offsets)) == (
            "classic",
            Phase.EMPTY,
            1,
            {P[0]: 7},
        )
        assert (await commit(shards, {P[0]: Committed(8)})).error is ErrorCode.NONE
        assert shards.rows(KEY).version == 1


async def test_who_states_a_generation_of_an_unknown_group_makes_no_group() -> None:
    async with Shards() as shards:
        refused = await commit(shards, {P[0]: Committed(7)}, member_id="ann", generation=3)
        assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
        assert KEY not in shards.database.tables["groups"]


async def test_a_retention_time_of_its_own_is_an_expiry_stamp() -> None:
    async with Shards([classic()]) as shards:
        timed = {P[0]: Committed(7, retention_ms=60_000)}
        await commit(shards, timed, member_id="ann", generation=1)
        [note] = shards.rows(KEY).offset_notes.values()
        assert note.expires_at_ms is not None and note.expires_at_ms > 60_000


@pytest.mark.parametrize("days", [-3, 3])
async def test_an_expiry_stamp_is_of_the_databases_clock_whatever_this_node_believes(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    by_the_database = timezone.now()
    host = by_the_database + timedelta(days=days)
    monkeypatch.setattr(time, "time", host.timestamp)
    monkeypatch.setattr(timezone, "now", lambda: host)
    monkeypatch.setattr(database_clock, "_heard", (by_the_database, clock.now()))
    async with Shards([classic()]) as shards:
        await commit(shards, {P[0]: Committed(7, retention_ms=60_000)}, member_id="ann", generation=1)
        [note] = shards.rows(KEY).offset_notes.values()
        assert note.expires_at_ms is not None
        assert 0 <= note.expires_at_ms - 60_000 - by_the_database.timestamp() * 1000 < 3_600_000


async def test_nothing_that_the_database_cannot_hold_reaches_the_batch() -> None:
    async with Shards([classic()]) as shards:
        odd = {P[0]: Committed(7, leader_epoch=-2), P[1]: Committed(8, retention_ms=2**63 - 1)}
        assert (await commit(shards, odd, member_id="ann", generation=1)).error is ErrorCode.NONE
        assert dict(shards.rows(KEY).offset_notes) == {P[1]: OffsetNote(expires_at_ms=LAST_DAY_MS)}
