"""This room writes and reads the members of classic groups, thousands in one statement."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coordinator.statements import statement
from groups.core.classic import ClassicMember, ClassicRows, states_the_same
from groups.core.consumer_protocol import CONSUMER, assigned_partitions
from runtime.arrays import array_of_numbers, array_of_texts
from runtime.postgres import LaneConnection

_encode = msgspec.json.Encoder().encode
_NOBODY: Mapping[str, ClassicMember] = {}


def load(connection: LaneConnection, groups: Sequence[str]) -> Mapping[str, Mapping[str, ClassicMember]]:
    """The members of these groups by id, in the order in which they came."""
    found: dict[str, dict[str, ClassicMember]] = defaultdict(dict)
    with connection.cursor(binary=True) as cursor:
        for (
            group,
            member_id,
            instance_id,
            client_id,
            host,
            session,
            rebalance,
            names,
            said,
            assignment,
        ) in cursor.execute(statement("load_classic_members"), {"groups": groups}):
            found[group][member_id] = ClassicMember(
                member_id=member_id,
                group_instance_id=instance_id,
                client_id=client_id,
                client_host=host,
                session_timeout_ms=session,
                rebalance_timeout_ms=rebalance,
                protocols=tuple(zip(names, said, strict=True)),
                assignment=assignment,
            )
    return found


def save(
    connection: LaneConnection, group: str, before: ClassicRows | None, after: ClassicRows | None, node: str
) -> None:
    """Write what one turn made of the members; whoever it left as they were costs a comparison."""
    was = _NOBODY if before is None else before.members
    becomes = _NOBODY if after is None else after.members
    if was is becomes:
        return
    gone = [member_id for member_id in was if member_id not in becomes]
    if gone:
        # First, because who takes the place of a static member bears its name.
        connection.execute(
            statement("delete_classic_members"), {"group": group, "member_ids": array_of_texts(gone)}
        )
    touched = [(was.get(member_id), one) for member_id, one in becomes.items()]
    touched = [(old, new) for old, new in touched if old is not new]
    told = [new for old, new in touched if old is not None and _says_the_same(old, new)]
    anew = [new for old, new in touched if old is None or not _says_the_same(old, new)]
    understood = after is not None and after.protocol_type == CONSUMER
    if anew:
        connection.execute(
            statement("upsert_classic_members"), _columns(group, anew, understood) | {"node": node}
        )
    if told:
        connection.execute(statement("update_assignments"), _assignments(group, told, understood))


def _says_the_same(old: ClassicMember, new: ClassicMember) -> bool:
    """Whether nothing but the assignment differs."""
    return states_the_same(old, new) and old.group_instance_id == new.group_instance_id


def _columns(group: str, members: Sequence[ClassicMember], understood: bool) -> dict[str, Any]:
    return _assignments(group, members, understood) | {
        "group_instance_ids": [one.group_instance_id for one in members],
        "client_ids": array_of_texts(one.client_id for one in members),
        "client_hosts": array_of_texts(one.client_host for one in members),
        "session_timeouts_ms": array_of_numbers(one.session_timeout_ms for one in members),
        "rebalance_timeouts_ms": array_of_numbers(one.rebalance_timeout_ms for one in members),
        "protocol_names": array_of_texts(
            array_of_texts(name for name, _ in one.protocols) for one in members
        ),
        "protocol_metadata": array_of_texts(
            array_of_texts(f"\\x{said.hex()}" for _, said in one.protocols) for one in members
        ),
    }


def _assignments(group: str, members: Sequence[ClassicMember], understood: bool) -> dict[str, Any]:
    return {
        "group": group,
        "member_ids": array_of_texts(one.member_id for one in members),
        "assignments": array_of_texts(one.assignment.hex() for one in members),
        "observed": array_of_texts(_observed(one.assignment) if understood else "{}" for one in members),
    }


def _observed(assignment: bytes) -> str:
    """The projection for pages, as JSON; of bytes that cannot be read nothing."""
    partitions = assigned_partitions(assignment) if assignment else None
    return _encode(partitions).decode() if partitions else "{}"
