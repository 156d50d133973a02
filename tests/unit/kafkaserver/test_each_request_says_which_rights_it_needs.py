"""Each request of Kafka's protocol needs rights, and is refused with one error without them: this table.

A request that is new fails until it stands here, and then until both doors do as it says. It is asked as
somebody who may do everything with other names, about names that are there and names that are not, and as
somebody who may do nothing at all.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin

import pytest

from gateway.translation.records import RECORD_REQUESTS
from kafkaserver.callers import CONSUME, OPERATE, PRODUCE, VIEW, KafkaCaller
from kafkaserver.producer_ids import ProducerIdBlock
from kafkaserver.refusals import GROUP_REQUESTS
from kafkaserver.server import KafkaServer
from muster.kafkawire.api_table import SERVED, ApiKey, request_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import EVERYTHING, Scope
from runtime.ports import ConnectionLost
from tests.unit.broker_data_plane.planes import broker, client
from tests.unit.gateway.doors import kafka_door

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, NONE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE
REFUSALS: Final = frozenset({TOPIC, GROUP, CLUSTER})


class Rule(NamedTuple):
    """The error for whom names bound that the request does not name, and for who may do nothing.

    NONE: it is answered, and tells nothing that is beyond.
    """

    beyond: ErrorCode
    without: ErrorCode


TABLE: Final[Mapping[int, Rule]] = MappingProxyType(
    {
        # Records.
        ApiKey.PRODUCE: Rule(TOPIC, TOPIC),
        ApiKey.FETCH: Rule(TOPIC, TOPIC),
        ApiKey.DESCRIBE_PRODUCERS: Rule(TOPIC, TOPIC),
        ApiKey.DELETE_RECORDS: Rule(TOPIC, TOPIC),
        ApiKey.INIT_PRODUCER_ID: Rule(NONE, CLUSTER),
        # What a topic is: told to whoever may do anything with it.
        ApiKey.METADATA: Rule(TOPIC, NONE),
        ApiKey.LIST_OFFSETS: Rule(TOPIC, NONE),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Rule(TOPIC, NONE),
        ApiKey.DESCRIBE_CONFIGS: Rule(TOPIC, NONE),
        # Topics are changed.
        ApiKey.CREATE_TOPICS: Rule(TOPIC, TOPIC),
        ApiKey.DELETE_TOPICS: Rule(TOPIC, TOPIC),
        ApiKey.CREATE_PARTITIONS: Rule(TOPIC, TOPIC),
        ApiKey.ALTER_CONFIGS: Rule(TOPIC, TOPIC),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(TOPIC, TOPIC),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: Rule(TOPIC, TOPIC),
        ApiKey.ELECT_LEADERS: Rule(TOPIC, TOPIC),
        ApiKey.ALTER_REPLICA_LOG_DIRS: Rule(TOPIC, TOPIC),
        # Groups; of offsets the topics, too, as a test below shows.
        ApiKey.JOIN_GROUP: Rule(GROUP, GROUP),
        ApiKey.SYNC_GROUP: Rule(GROUP, GROUP),
        ApiKey.HEARTBEAT: Rule(GROUP, GROUP),
        ApiKey.LEAVE_GROUP: Rule(GROUP, GROUP),
        ApiKey.OFFSET_COMMIT: Rule(GROUP, GROUP),
        ApiKey.OFFSET_FETCH: Rule(GROUP, GROUP),
        ApiKey.OFFSET_DELETE: Rule(GROUP, GROUP),
        ApiKey.DESCRIBE_GROUPS: Rule(GROUP, GROUP),
        ApiKey.DELETE_GROUPS: Rule(GROUP, GROUP),
        # Lists leave out what is beyond.
        ApiKey.LIST_GROUPS: Rule(NONE, NONE),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: Rule(NONE, CLUSTER),
        ApiKey.DESCRIBE_LOG_DIRS: Rule(NONE, CLUSTER),
        # The whole cluster.
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Rule(CLUSTER, CLUSTER),
        ApiKey.ALTER_CLIENT_QUOTAS: Rule(CLUSTER, CLUSTER),
        ApiKey.UPDATE_FEATURES: Rule(CLUSTER, CLUSTER),
        ApiKey.UNREGISTER_BROKER: Rule(CLUSTER, CLUSTER),
        # What every client has to know: brokers and nodes, and who serves what is called so, if it is there
        # or not.
        ApiKey.API_VERSIONS: Rule(NONE, NONE),
        ApiKey.SASL_HANDSHAKE: Rule(NONE, NONE),
        ApiKey.SASL_AUTHENTICATE: Rule(NONE, NONE),
        ApiKey.DESCRIBE_CLUSTER: Rule(NONE, NONE),
        ApiKey.FIND_COORDINATOR: Rule(NONE, NONE),
        # There are none, whoever asks; nobody has any.
        ApiKey.DESCRIBE_ACLS: Rule(NONE, NONE),
        ApiKey.CREATE_ACLS: Rule(NONE, NONE),
        ApiKey.DELETE_ACLS: Rule(NONE, NONE),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Rule(NONE, NONE),
    }
)

OWN, THERE, NOWHERE = "mine", "orders", "nothing"
"""Topics and groups; only `orders` is there, as a topic and as a group."""

OTHERS: Final = KafkaCaller(
    "ben", "ben", "", frozenset({CONSUME, PRODUCE, OPERATE, VIEW}), Scope.of((OWN,)), Scope.of((OWN,))
)
NOTHING: Final = KafkaCaller("eve", "eve", "", frozenset(), EVERYTHING, EVERYTHING)


class Door(NamedTuple):
    name: str
    ask: Any
    server: KafkaServer
    finds_its_database: Callable[[], None] = lambda: None

    def comes_in(self, caller: KafkaCaller) -> None:
        """Whoever is connected is this one."""
        for connection in self.server._connections:
            connection.identity = caller
            if connection.session is not None:
                connection.session.admitted(caller)


@asynccontextmanager
async def door_of_a_broker(folder: Path) -> AsyncIterator[Door]:
    """One that leads `orders`; its controller does not answer."""
    async with broker(folder) as one, client(one.client_port) as ann:
        one.obey(1)
        one.controller.blocks = [ProducerIdBlock(1, 1_000)]
        await ann.ask(ApiKey.API_VERSIONS, 0, request_class(ApiKey.API_VERSIONS, 0)())
        yield Door("broker", ann.ask, one.client.server)


@asynccontextmanager
async def door_of_a_node(_: Path) -> AsyncIterator[Door]:
    """One that serves the shard of the group `orders`, which committed an offset; its database is away."""
    async with kafka_door(THERE) as door:
        ann = await door.peer()

        async def ask(key: ApiKey, version: int, body: Any) -> Any:
            return await ann.ask(key, version, **{one.name: getattr(body, one.name) for one in fields(body)})

        committed = await ask(ApiKey.OFFSET_COMMIT, 9, made(ApiKey.OFFSET_COMMIT, (THERE,)))
        assert [int(one.error_code) for one in committed.topics[0].partitions] == [NONE]
        door.listener._producer_ids._block = ProducerIdBlock(1, 1_000)
        door.node.fails_with = ConnectionLost("away")

        def finds_its_database() -> None:
            door.node.fails_with = None

        yield Door("node", ask, door.listener.server, finds_its_database)


DOORS: Final = [door_of_a_broker, door_of_a_node]

NAMES: Final = ("name", "topic", "topic_name", "resource_name", "group_id", "groups_names", "groups")
EMPTY: Final = ("states_filter", "types_filter", "forgotten_topics_data", "assignments", "configs")
STATED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "acks": 1, "replica_id": -1, "session_epoch": -1, "timestamp": -1, "resource_type": 2,
        "current_leader_epoch": -1, "generation_id_or_member_epoch": -1, "producer_id": -1,
        "partition_max_bytes": 1_000, "max_bytes": 1_000, "count": 9, "endpoint_type": 1,
    }
)  # fmt: skip


NOT_HERE: Final = {
    "broker": frozenset(GROUP_REQUESTS),
    "node": frozenset({*RECORD_REQUESTS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ALTER_REPLICA_LOG_DIRS}),
}
"""Brokers have no groups, nodes no records and no logs."""


def version_of(key: int) -> int:
    """The newest one that says names."""
    return 12 if key == ApiKey.FETCH else SERVED[key].maximum


def made(key: int, names: tuple[str, ...], version: int | None = None) -> Any:
    """A request about all of these wherever it has room for many, else about the last of them."""
    return _filled(request_class(key, version_of(key) if version is None else version), names)


def _filled(shape: Any, names: tuple[str, ...]) -> Any:
    return shape(**{one.name: _value(one.name, one.type, names) for one in fields(shape)})


def _value(name: str, annotation: Any, names: tuple[str, ...]) -> Any:
    kinds = [kind for kind in get_args(annotation) if kind not in (NoneType, Ellipsis)]
    if get_origin(annotation) is tuple:
        return () if name in EMPTY else tuple(_elements(name, kinds[0], names))
    if kinds and not isinstance(annotation, type):
        is_said = name in NAMES or get_origin(kinds[0]) is tuple
        return _value(name, kinds[0], names) if is_said else None
    if is_dataclass(annotation):
        return _filled(annotation, names)
    if name in STATED:
        return STATED[name]
    return _plain(name, annotation, names)


def _elements(name: str, kind: Any, names: tuple[str, ...]) -> Iterator[Any]:
    if not is_dataclass(kind):
        yield from names if name in (*NAMES, "coordinator_keys") else (_plain(name, kind, names),)
        return
    is_named = any(one.name in NAMES for one in fields(kind))
    for one in names if is_named else names[-1:]:
        filled = _filled(kind, names)
        yield replace(filled, **{field.name: one for field in fields(filled) if field.name in NAMES})


def _plain(name: str, kind: Any, names: tuple[str, ...]) -> Any:
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    if issubclass(kind, bool):
        return False
    if issubclass(kind, timedelta):
        return timedelta(seconds=1)
    if issubclass(kind, str):
        return names[-1] if name in NAMES else "x"
    return b"x" if issubclass(kind, bytes) else 0


def errors_of(answer: Any, of: str = "") -> dict[str, set[int]]:
    """By name, the errors that are told of it and of what it holds; "": of the whole."""
    found: dict[str, set[int]] = {}
    if isinstance(answer, tuple):
        parts = [errors_of(one, of) for one in answer]
    elif is_dataclass(answer):
        said = {one.name: getattr(answer, one.name) for one in fields(answer)}
        of = next((said[one] for one in NAMES if isinstance(said.get(one), str)), of)
        if "error_code" in said:
            found.setdefault(of, set()).add(int(said["error_code"]))
        parts = [errors_of(value, of) for value in said.values()]
    else:
        return found
    for part in parts:
        for name, errors in part.items():
            found.setdefault(name, set()).update(errors)
    return found


def expected(door: Door, key: int, rule: ErrorCode) -> set[int]:
    """The refusals at this door: what it has nothing of it answers to everybody alike."""
    return set() if key in NOT_HERE[door.name] or rule is NONE else {rule}


def refusals(answer: Any) -> set[int]:
    return set().union(*errors_of(answer).values()) & REFUSALS


def test_every_request_that_is_served_stands_in_the_table() -> None:
    assert TABLE.keys() == SERVED.keys()


VERSIONS: Final = [
    (api.key, version) for api in SERVED.values() for version in range(api.minimum, version_of(api.key) + 1)
]


@pytest.mark.parametrize("opened", DOORS)
@pytest.mark.parametrize(("key", "version"), VERSIONS)
async def test_of_others_names_those_that_are_there_are_told_as_those_that_are_not(
    tmp_path: Path, opened: Any, key: int, version: int
) -> None:
    async with opened(tmp_path) as door:
        door.comes_in(OTHERS)
        told = []
        for name in (THERE, NOWHERE):
            answer = await door.ask(ApiKey(key), version, made(key, (name,), version))
            assert refusals(answer) == expected(door, key, TABLE[key].beyond)
            told.append(repr(answer).replace(name, "IT"))
        if THERE in repr(made(key, (THERE,), version)):
            assert told[0] == told[1]


@pytest.mark.parametrize("opened", DOORS)
@pytest.mark.parametrize("key", sorted(TABLE))
async def test_whoever_may_do_nothing_is_refused(tmp_path: Path, opened: Any, key: int) -> None:
    async with opened(tmp_path) as door:
        door.comes_in(NOTHING)
        answer = await door.ask(ApiKey(key), version_of(key), made(key, (THERE,)))
        assert refusals(answer) == expected(door, key, TABLE[key].without)


IN_BULK: Final = [
    key
    for key, rule in sorted(TABLE.items())
    if rule.beyond in (TOPIC, GROUP)
    and OWN in repr(made(key, (OWN, THERE)))
    and not hasattr(made(key, (OWN,)), "group_id")
]


@pytest.mark.parametrize("opened", DOORS)
@pytest.mark.parametrize("key", IN_BULK)
async def test_of_many_those_that_are_allowed_are_answered_and_the_others_refused(
    tmp_path: Path, opened: Any, key: int
) -> None:
    async with opened(tmp_path) as door:
        door.comes_in(OTHERS)
        answer = await door.ask(ApiKey(key), version_of(key), made(key, (OWN, THERE)))
        errors = errors_of(answer)
        if not expected(door, key, TABLE[key].beyond):
            assert not refusals(answer)
            return
        assert errors[THERE] <= {TABLE[key].beyond, TOPIC}
        assert errors[OWN] and not errors[OWN] & REFUSALS


@pytest.mark.parametrize("key", [ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE])
@pytest.mark.parametrize("topic", [THERE, NOWHERE])
async def test_in_a_group_of_ones_own_others_topics_are_refused_there_or_not(
    tmp_path: Path, key: ApiKey, topic: str
) -> None:
    body = made(key, (topic,))
    if key is ApiKey.OFFSET_FETCH:
        body = replace(body, groups=(replace(body.groups[0], group_id=THERE),))
    else:
        body = replace(body, group_id=THERE)
    async with door_of_a_node(tmp_path) as door:
        door.comes_in(replace(OTHERS, groups=EVERYTHING))
        # Committed offsets are told by the topics of now, or not at all.
        door.finds_its_database()
        assert refusals(await door.ask(key, version_of(key), body)) == {TOPIC}
