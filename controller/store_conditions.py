"""This room stores what brokers say of themselves, beside turns, for people and for plans they review."""

from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Cursor

from controller import statements_conditions as statements
from controller.pace import Said
from controller.statements import numbers, uuids
from muster.messages.link.condition import SOUND, Condition, LagNote, LogNote, ThrottledClient
from runtime.models import VERSION_LENGTH
from runtime.postgres import LaneConnection


def note(connection: LaneConnection, said: Said) -> None:
    """Store it; whoever is unregistered is left out. Done twice it is as done once."""
    with connection.cursor() as cursor:
        if said.begun:
            cursor.execute(statements.FORGET_LOGS, {"broker_id": numbers(said.begun)})
            cursor.execute(statements.FORGET_LAGS, {"broker_id": numbers(said.begun)})
        if said.conditions:
            _note_conditions(cursor, said.conditions)
        if noted := [(broker, one) for broker, one in said.logs if one.state != SOUND]:
            cursor.execute(
                statements.NOTE_LOGS,
                {
                    **_keys(noted),
                    "state": [one.state for _, one in noted],
                    "why": [one.why.replace("\x00", "") for _, one in noted],
                    "end_offset": numbers(one.end_offset for _, one in noted),
                    "age_ms": numbers(one.age_ms for _, one in noted),
                },
            )
        if sound := [(broker, one) for broker, one in said.logs if one.state == SOUND]:
            cursor.execute(statements.SOUND_LOGS, _keys(sound))
        if said.lags:
            cursor.execute(
                statements.NOTE_LAGS,
                {
                    **_keys(said.lags),
                    "lagging": [",".join(map(str, one.lagging)) for _, one in said.lags],
                    "age_ms": numbers(one.age_ms for _, one in said.lags),
                },
            )


def forget(cursor: Cursor[Any], brokers: Sequence[int]) -> None:
    """These are unregistered: what they said last is nobody's any more."""
    values = {"broker_id": numbers(brokers)}
    cursor.execute(statements.FORGET_CONDITIONS, values)
    cursor.execute(statements.FORGET_LOGS, values)
    cursor.execute(statements.FORGET_LAGS, values)


def _note_conditions(cursor: Cursor[Any], conditions: Sequence[tuple[int, Condition]]) -> None:
    disks = [one.disk for _, one in conditions]
    cursor.execute(
        statements.NOTE_CONDITIONS,
        {
            "broker_id": numbers(broker for broker, _ in conditions),
            "total": [disk and disk.total_bytes for disk in disks],
            "usable": [disk and disk.usable_bytes for disk in disks],
            "reserve": [disk and disk.reserve_bytes for disk in disks],
            "is_full": [disk is not None and disk.is_full for disk in disks],
            "throttled": [_throttled(one) for _, one in conditions],
            "more": numbers(one.throttled_more for _, one in conditions),
            "version": [one.version.replace("\x00", "")[:VERSION_LENGTH] for _, one in conditions],
        },
    )


def _throttled(said: Condition) -> str:
    return msgspec.json.encode([_storable(client) for client in said.throttled]).decode()


def _storable(client: ThrottledClient) -> ThrottledClient:
    """Without U+0000, which the database takes in no text: an older broker tells names as they came."""
    names = (client.user or "") + (client.client_id or "")
    if "\x00" not in names:
        return client
    user, client_id = (name and name.replace("\x00", "") for name in (client.user, client.client_id))
    return msgspec.structs.replace(client, user=user, client_id=client_id)


def _keys(logs: Sequence[tuple[int, LogNote | LagNote]]) -> dict[str, str]:
    return {
        "broker_id": numbers(broker for broker, _ in logs),
        "topic_id": uuids(one.topic_id for _, one in logs),
        "partition": numbers(one.partition for _, one in logs),
    }
