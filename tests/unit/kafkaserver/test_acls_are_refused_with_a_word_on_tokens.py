"""Kafka's tools for ACLs are told that there are none, and that tokens say who may do what."""

from typing import Any

import pytest

from kafkaserver.acls import ACL_REQUESTS
from muster.kafkawire.api_table import SERVED, ApiKey, read_request_header
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkaserver.kafka_requests import Kept, body_of, frame, parts

ANY, READ, ALLOW, TOPIC, LITERAL = 1, 3, 3, 2, 3


def answered(key: ApiKey, version: int, **fields: Any) -> Any:
    question, reply = frame(key, version, **fields), Kept()
    ACL_REQUESTS[key](read_request_header(question), question, reply)  # type: ignore[arg-type]
    return body_of(key, version, b"".join(reply.pieces))


def refusal(one: Any) -> tuple[int, bool]:
    return int(one.error_code), "tokens say who may do what" in one.error_message


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_each_request_is_refused(version: int) -> None:
    assert all(SERVED[key].minimum <= version <= SERVED[key].maximum for key in ACL_REQUESTS)
    expected = (ErrorCode.SECURITY_DISABLED, True)
    ann = {"resource_pattern_type": LITERAL, "principal": "User:ann", "host": "*", "operation": READ}
    filtered = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }

    described = answered(ApiKey.DESCRIBE_ACLS, version, **filtered)
    assert (refusal(described), described.resources) == (expected, ())

    wanted = [
        parts(
            ApiKey.CREATE_ACLS,
            version,
            "AclCreation",
            resource_type=TOPIC,
            resource_name=name,
            permission_type=ALLOW,
            **ann,
        )
        for name in ("orders", "clicks")
    ]
    created = answered(ApiKey.CREATE_ACLS, version, creations=tuple(wanted))
    assert [refusal(one) for one in created.results] == [expected] * 2

    filters = (parts(ApiKey.DELETE_ACLS, version, "DeleteAclsFilter", **filtered),)
    deleted = answered(ApiKey.DELETE_ACLS, version, filters=filters)
    assert [(refusal(one), one.matching_acls) for one in deleted.filter_results] == [(expected, ())]
