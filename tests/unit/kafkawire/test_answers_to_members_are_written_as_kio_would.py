"""What members hear of a rebalance is what kio writes, in every version, though kio is not asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster.kafkawire.api_table import ApiKey, build, encode_body, part, response_class
from muster.kafkawire.member_answers import (
    GoneMember,
    JoinedMember,
    join_answer_body,
    leave_answer_body,
    sync_answer_body,
)

texts = some.text(max_size=200)
errors = some.sampled_from((0, 16, 25, 27))
members = some.lists(some.tuples(texts, some.none() | texts, some.binary(max_size=200)), max_size=3)


@pytest.mark.parametrize("version", range(10))
@given(errors, some.integers(-1, 2**31 - 1), some.none() | texts, texts, texts, some.booleans(), members)
def test_a_join_is_answered_as_kio_would(
    version: int,
    error: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str,
    member_id: str,
    skips: bool,
    members: list[JoinedMember],
) -> None:
    shape = response_class(ApiKey.JOIN_GROUP, version)
    one = part(shape, "JoinGroupResponseMember")
    name = None if skips and version >= 7 else protocol_name
    by_kio = build(
        shape,
        error_code=error,
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=name,
        leader=member_id,
        skip_assignment=skips,
        member_id=member_id,
        members=tuple(
            build(one, member_id=who, group_instance_id=instance, metadata=said)
            for who, instance, said in members
        ),
    )
    assert encode_body(by_kio) == join_answer_body(
        version,
        error=error,
        generation=generation,
        protocol_type=protocol_type,
        protocol_name=name,
        leader=member_id,
        skip_assignment=skips,
        member_id=member_id,
        members=members,
    )


@given(some.integers(0, 5), errors, some.none() | texts, some.none() | texts, some.binary(max_size=300))
def test_a_sync_is_answered_as_kio_would(
    version: int, error: int, protocol_type: str | None, protocol_name: str | None, assignment: bytes
) -> None:
    told = {"protocol_type": protocol_type, "protocol_name": protocol_name, "assignment": assignment}
    by_kio = build(response_class(ApiKey.SYNC_GROUP, version), error_code=error, **told)
    by_hand = sync_answer_body(
        version,
        error=error,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignment=assignment,
    )
    assert by_hand == encode_body(by_kio)


gone_members = some.lists(some.tuples(texts, some.none() | texts, errors), max_size=3)


@pytest.mark.parametrize("version", range(6))
@given(errors, gone_members)
def test_a_leave_is_answered_as_kio_would(version: int, error: int, members: list[GoneMember]) -> None:
    shape = response_class(ApiKey.LEAVE_GROUP, version)
    told: dict[str, object] = {"error_code": error}
    if version >= 3:
        one = part(shape, "MemberResponse")
        told["members"] = tuple(
            build(one, member_id=who, group_instance_id=instance, error_code=number)
            for who, instance, number in members
        )
    by_hand = leave_answer_body(version, error=error, members=members)
    assert by_hand == encode_body(build(shape, **told))
