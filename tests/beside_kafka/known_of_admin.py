"""This room knows which answers to operators are meant to differ, each by its row of docs/deviations.md."""

from collections.abc import Callable
from typing import Final

from muster.kernel.error_codes import ErrorCode
from tests.beside_kafka.doors import Difference
from tests.beside_kafka.lockstep import Known, Values

BROKER, LOGGER, METRICS, GROUP = 4, 8, 16, 32
NOT_ASKED: Final = -(2**31)


def _code(*ours: int, **stated: object) -> Callable[[Values, Difference], bool]:
    """Muster's error is one of these, and what was asked is so."""

    def holds(about: Values, one: Difference) -> bool:
        if not (one.where.endswith("error_code") and one.ours in ours):
            return False
        return all(about.get(name) == value for name, value in stated.items())

    return holds


def _is_of(kind: str) -> Callable[[Values, Difference], bool]:
    return lambda about, one: (
        any(part["entity_type"] == kind for part in (*about.get("entity", ()), *about.get("components", ())))
        and one.where.endswith("error_code")
    )


def _is_emptied(about: Values, one: Difference) -> bool:
    """What is left of its policies is none."""
    return one.ours == ErrorCode.INVALID_CONFIG and any(
        config["name"].endswith("cleanup.policy") for config in about.get("wanted", ()) if "kind" in about
    )


KNOWN_OF_ADMIN: Final = (
    Known(
        "IncrementalAlterConfigs and DescribeConfigs of broker loggers, groups and client metrics",
        lambda about, _: about.get("kind") in (LOGGER, METRICS, GROUP),
    ),
    Known(
        'the group id `""` is a real name',
        lambda about, one: (
            one.ours == ErrorCode.INVALID_GROUP_ID
            and ("" in about.get("groups", ()) or about.get("group") == "")
        ),
    ),
    Known("configs of a broker are asked of that broker alone", _code(ErrorCode.INVALID_CONFIG, kind=BROKER)),
    Known(
        "configs of a broker are asked of that broker alone",
        _code(ErrorCode.BROKER_ID_NOT_REGISTERED, kind=BROKER),
    ),
    Known(
        "any topic config is stored",
        lambda about, one: (
            one.ours == ErrorCode.INVALID_CONFIG
            and any(config["name"].startswith("no.such") for config in about.get("wanted", ()))
        ),
    ),
    Known(
        "Metadata tells what a caller may do with topics that do not exist",
        lambda _, one: one.where.endswith("authorized_operations") and one.ours == NOT_ASKED,
    ),
    Known(
        "a level of isolation",
        lambda about, one: (
            one.ours == ErrorCode.INVALID_REQUEST
            and any(config.get("config_operation") == 9 for config in about.get("wanted", ()))
        ),
    ),
    Known(
        "Metadata tells what a caller may do with topics that do not exist",
        lambda _, one: one.where.endswith("authorized_operations") and not one.ours & ~one.theirs,
    ),
    Known(
        "configs of a broker are asked of that broker alone",
        lambda about, one: (
            about.get("kind") == BROKER and about["name"] == "" and one.theirs == ErrorCode.INVALID_CONFIG
        ),
    ),
    Known("`cleanup.policy` may be empty", _is_emptied),
    Known(
        "a request that is wrong in several ways",
        lambda about, one: (
            one.where.endswith("error_code") and bool(about.get("several") and one.ours and one.theirs)
        ),
    ),
    Known(
        "two topics of one CreateTopics",
        lambda about, one: (
            len(about.get("created", ())) > 1 and one.ours == ErrorCode.INVALID_TOPIC_EXCEPTION
        ),
    ),
    Known("transactions", lambda about, one: "keys" in about and about["kind"] == 1),
    Known(
        "while a group joins again DescribeGroups",
        lambda _, one: one.where.endswith("member_assignment") and one.ours == b"",
    ),
    Known("quotas are set for users, client ids and addresses", _is_of("ip")),
)
