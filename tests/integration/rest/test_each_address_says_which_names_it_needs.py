"""Each verb of each address of REST needs an operation, and of a token that names bound more: this table.

An address that is new fails until it stands here, and then until it does as it says.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import msgspec
import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from access.grants import Operation, Role
from access.service import create_token
from controller.core.requests import KIND as OF_THE_CONTROLLER
from controller.core.requests import Asked as AskedOfTheController
from controller.models import ClientQuota, ElectionLoss, Plan
from groups.core.requests import KIND, Asked, DeleteGroup
from muster.messages.link.from_broker import DeleteTopics, NamedTopic
from runtime import asking
from runtime.models import WorkItem
from standalone.postgres import Postgres
from tests.conftest import database_of_its_own
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


class Needs(Enum):
    """What a token that names bound must be good for; each has its own test below."""

    GROUP = auto()
    """The group in the address; any other is 403, whether it is there or not."""
    TOPIC = auto()
    """The topic in the address, likewise."""
    NAMED = auto()
    """All that the body names."""
    ROWS = auto()
    """Nothing: it is told of what it is good for alone."""
    ITSELF = auto()
    """What the id in the address is about; else it is as one that is not there."""
    EVERY_TOPIC = auto()
    WHOLE_CLUSTER = auto()
    NOTHING = auto()
    """What is told there names no group, topic or user."""


class Rule(NamedTuple):
    operation: Operation
    needs: Needs
    bodies: tuple[dict[str, Any], ...] = ()
    """What is beyond the token of the test."""


VIEW, OPERATE = Operation.VIEW, Operation.OPERATE
_LOSS: Final = {"partition": 0, "leader_epoch": 1, "version": None}
_MOVE: Final = {"partition": 0, "replicas": [1], "version": None}

TABLE: Final[dict[tuple[str, str], Rule]] = {
    ("schema", "GET"): Rule(VIEW, Needs.NOTHING),
    ("api-groups", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-group", "GET"): Rule(VIEW, Needs.GROUP),
    ("api-offsets", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-offset", "GET"): Rule(VIEW, Needs.GROUP),
    ("api-members", "GET"): Rule(VIEW, Needs.GROUP),
    ("api-rebalances", "GET"): Rule(VIEW, Needs.GROUP),
    ("api-requests", "GET"): Rule(VIEW, Needs.GROUP),
    ("api-requests", "POST"): Rule(OPERATE, Needs.GROUP),
    ("api-request", "GET"): Rule(VIEW, Needs.ITSELF),
    ("api-brokers", "GET"): Rule(VIEW, Needs.NOTHING),
    ("api-broker", "GET"): Rule(VIEW, Needs.NOTHING),
    ("api-broker", "POST"): Rule(OPERATE, Needs.WHOLE_CLUSTER, ({"kind": "cordon"},)),
    ("api-broker", "DELETE"): Rule(OPERATE, Needs.WHOLE_CLUSTER),
    ("api-broker-condition", "GET"): Rule(VIEW, Needs.WHOLE_CLUSTER),
    ("api-broker-configs", "GET"): Rule(VIEW, Needs.NOTHING),
    ("api-broker-configs", "PATCH"): Rule(OPERATE, Needs.WHOLE_CLUSTER, ({"unset": ["x"]},)),
    ("api-cluster-configs", "GET"): Rule(VIEW, Needs.NOTHING),
    ("api-cluster-configs", "PATCH"): Rule(OPERATE, Needs.WHOLE_CLUSTER, ({"unset": ["x"]},)),
    ("api-logs", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-processes", "GET"): Rule(VIEW, Needs.NOTHING),
    ("api-losses", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-losses", "POST"): Rule(
        OPERATE, Needs.NAMED, ({"losses": [{"topic": "orders", **_LOSS}, {"topic": "cards", **_LOSS}]},)
    ),
    ("api-quotas", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-quotas", "PUT"): Rule(
        OPERATE, Needs.WHOLE_CLUSTER, ({"producer_byte_rate": 1, "consumer_byte_rate": None},)
    ),
    ("api-quotas", "DELETE"): Rule(OPERATE, Needs.WHOLE_CLUSTER),
    ("api-topics", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-topics", "POST"): Rule(OPERATE, Needs.NAMED, ({"topic": "cards"}, {"topic": "new"})),
    ("api-topic", "GET"): Rule(VIEW, Needs.TOPIC),
    ("api-topic", "DELETE"): Rule(OPERATE, Needs.TOPIC),
    ("api-topic-partitions", "GET"): Rule(VIEW, Needs.TOPIC),
    ("api-topic-partitions", "POST"): Rule(OPERATE, Needs.TOPIC),
    ("api-topic-removal", "POST"): Rule(OPERATE, Needs.TOPIC),
    ("api-topic-history", "GET"): Rule(VIEW, Needs.TOPIC),
    ("api-topic-configs", "GET"): Rule(VIEW, Needs.TOPIC),
    ("api-topic-configs", "PATCH"): Rule(OPERATE, Needs.TOPIC),
    ("api-partitions", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-partitions", "POST"): Rule(
        OPERATE,
        Needs.NAMED,
        (
            {"election": "preferred"},
            {"election": "preferred", "topics": [{"topic": "orders"}, {"topic": "cards"}]},
            {"election": "unclean", "topics": [{"topic": "none", "partitions": [0]}]},
        ),
    ),
    ("api-partition", "GET"): Rule(VIEW, Needs.TOPIC),
    ("api-partition-history", "GET"): Rule(VIEW, Needs.TOPIC),
    ("api-reassignments", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-reassignments", "POST"): Rule(
        OPERATE, Needs.NAMED, ({"partitions": [{"topic": "orders", **_MOVE}, {"topic": "cards", **_MOVE}]},)
    ),
    ("api-reassignment", "GET"): Rule(VIEW, Needs.ITSELF),
    ("api-reassignment", "DELETE"): Rule(OPERATE, Needs.ITSELF),
    ("api-plans", "GET"): Rule(VIEW, Needs.EVERY_TOPIC),
    ("api-plans", "POST"): Rule(
        OPERATE,
        Needs.EVERY_TOPIC,
        (
            {"kind": "spread"},
            {"kind": "spread", "topics": ["orders"]},
            {"kind": "undo", "undoes": str(uuid4())},
        ),
    ),
    ("api-plan", "GET"): Rule(VIEW, Needs.EVERY_TOPIC),
    ("api-plan", "POST"): Rule(OPERATE, Needs.EVERY_TOPIC, ({"kind": "cancel"}, {"kind": "run"})),
    ("api-plan-steps", "GET"): Rule(VIEW, Needs.EVERY_TOPIC),
    ("api-controller-requests", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-controller-request", "GET"): Rule(VIEW, Needs.ITSELF),
    ("api-findings", "GET"): Rule(VIEW, Needs.ROWS),
    ("api-journal", "GET"): Rule(VIEW, Needs.ROWS),
}

BEYOND: Final = {"group": ("payments", "nobody-s"), "topic": ("cards", "nothing")}
"""What the token of the test is not good for: one that is there, and one that is not."""


def addresses() -> Iterator[tuple[str, str, str]]:
    """The name, the verb and the route of each address; of those with an alias, without it."""

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, str, str]]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            elif route.startswith("api/v1/") and "^" not in route and pattern.name is not None:
                view: Any = pattern.callback
                for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                    if hasattr(view.cls, verb.lower()):
                        yield pattern.name, verb, route
            elif route.startswith("api/v1/") and "^" not in route:
                unnamed.append(route)

    unnamed: list[str] = []
    found = list(walk(get_resolver().url_patterns, ""))
    named = {route.rstrip("/") for _, _, route in found}
    assert not [route for route in unnamed if route.rstrip("/") not in named], "an address needs a name"
    return iter(found)


ROUTES: Final = {(name, verb): route for name, verb, route in addresses()}


def of(*needs: Needs) -> list[tuple[str, str]]:
    return sorted(key for key, rule in TABLE.items() if rule.needs in needs)


NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Olga:
    """Somebody whose token is good for groups `team-*` and the topic `orders` unless it is said otherwise."""

    def __init__(
        self, role: Role, topics: tuple[str, ...] = ("orders",), groups: tuple[str, ...] = ("team-*",)
    ) -> None:
        token = create_token("olga", role, topics=topics, groups=groups)
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {token}", "If-Match": "*"}

    def asks(
        self, key: tuple[str, str], body: Mapping[str, Any] = NOTHING, names: Mapping[str, str] = NOTHING
    ) -> Any:
        """The answer to this verb of this address, whose every part has a value."""
        route = ROUTES[key]
        values = {
            "group": "team-a", "topic": "orders", "partition": "0", "broker_id": "1",
            "move_id": str(uuid4()), "plan_id": str(PLAN), "request_id": str(uuid4()), **names,
        }  # fmt: skip
        for name, value in values.items():
            for kind in ("name", "str", "int", "uuid"):
                route = route.replace(f"<{kind}:{name}>", value)
        assert "<" not in route, "give the part of the address a value above"
        verb = key[1]
        if verb == "DELETE":
            route += "?reason=we+test" + ("&user=ben" if key[0] == "api-quotas" else "")
        if verb == "PUT":
            route += "?user=ben"
        said = b""
        if verb not in ("GET", "DELETE"):
            said = msgspec.json.encode({"reason": "we test", **body})
        return self._client.generic(
            verb, f"/{route}", said, content_type="application/json", headers=self._headers
        )


PLAN: Final = UUID("00000000-0000-4000-8000-000000000001")


@pytest.fixture(scope="module")
def night(
    django_db_setup: None,
    postgres_server: Postgres,
    migrated_template: str,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[dict[str, tuple[str, str]]]:
    """Everything that a list may tell twice: once of what olga's token names, once of what it does not.

    The ids of what has one, by the part of the address: olga's, and what is not hers. What tests add to it
    is rolled back.
    """
    with (
        pytest.MonkeyPatch.context() as patch,
        database_of_its_own(postgres_server, migrated_template, django_db_blocker, patch),
    ):
        yield add_the_night()


@pytest.fixture(autouse=True)
def in_that_night(night: None, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody owns anything, so nobody waits for an answer."""
    monkeypatch.setattr(asking, "WAIT_S", 0.0)


def add_the_night() -> dict[str, tuple[str, str]]:
    cast.add_cluster()
    cast.add_broker(1)
    moves: list[str] = []
    requests, controllers = [], []
    for topic_name, group_name, user in (("orders", "team-a", "olga"), ("cards", "payments", "ben")):
        topic = cast.add_topic(topic_name, 1, [(1, 2)])
        group = cast.add_group(group_name)
        ann = cast.add_member(group, f"ann-of-{group_name}")
        cast.own(group, topic, ann.member_id, [0])
        cast.commit(group, topic, 0, 1)
        cast.reach(topic, 0, 1_000_000)
        cast.note_log(1, topic, 0, "offline")
        moves.append(str(cast.move(topic, 0, (2, 1)).id))
        ElectionLoss.objects.create(
            topic_id=topic.topic_id, topic_name=topic_name, partition=0, leader_epoch=7, leader=2,
            reason="unclean", version=30, isr=[1],
        )  # fmt: skip
        ClientQuota.objects.create(user_name=user, client_id=None, producer_byte_rate=1, version=1)
        cast.journal(f"coordinator/{group.shard}", group_name, cast.ago(minutes=1), f"of {group_name}", [])
        requests.append(
            WorkItem.objects.create(
                kind=KIND, lane="coordinator/0", key=group_name, principal=user,
                payload=msgspec.to_builtins(Asked(DeleteGroup())),
            )
        )  # fmt: skip
        wish = DeleteTopics(topics=(NamedTopic(name=topic_name),))
        controllers.append(
            WorkItem.objects.create(
                kind=OF_THE_CONTROLLER, lane="controller", key="cluster", principal=user, reason=topic_name,
                payload=msgspec.to_builtins(AskedOfTheController(wish)),
            )
        )  # fmt: skip
    cast.journal("controller", "cluster", cast.ago(minutes=1), "quotas of ben were changed", [])
    Plan.objects.create(
        id=PLAN, kind="spread", options={"kind": "spread"}, phase="Draft", at_a_time=1, version=1,
        proposed_version=1, proposed_at=timezone.now(), reason="cards go",
    )  # fmt: skip
    return {
        "move_id": (moves[0], moves[1]),
        "api-request": (str(requests[0].id), str(requests[1].id)),
        "api-controller-request": (str(controllers[0].id), str(controllers[1].id)),
    }


def test_every_verb_of_every_address_stands_in_the_table_and_no_other() -> None:
    assert TABLE.keys() == ROUTES.keys()


@pytest.mark.parametrize("key", sorted(TABLE), ids=" ".join)
def test_whoever_may_less_is_refused_before_anything_is_looked_at(key: tuple[str, str]) -> None:
    less = Role.CONSUMER if TABLE[key].operation is VIEW else Role.VIEWER
    refused = Olga(less, (), ()).asks(key)
    assert refused.status_code == 403
    assert refused.json()["kafka_error"]["name"] == "CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("key", sorted(TABLE), ids=" ".join)
def test_whoever_may_is_not_refused_for_its_role_or_its_names(key: tuple[str, str]) -> None:
    role = Role.VIEWER if TABLE[key].operation is VIEW else Role.OPERATOR
    assert Olga(role, (), ()).asks(key).status_code not in (401, 403, 405, 500)
    assert TABLE[key].operation is OPERATE or key[1] == "GET"


@pytest.mark.parametrize("key", of(Needs.GROUP, Needs.TOPIC), ids=" ".join)
def test_a_name_in_the_address_that_is_beyond_the_token_is_refused_there_or_not(key: tuple[str, str]) -> None:
    olga = Olga(Role.OPERATOR)
    kinds = [kind for kind in ("group", "topic") if f":{kind}>" in ROUTES[key]]
    assert TABLE[key].needs.name.lower() in kinds
    for kind in kinds:
        there, nowhere = (olga.asks(key, names={kind: name}) for name in BEYOND[kind])
        for refused in (there, nowhere):
            assert refused.status_code == 403
            assert refused.json()["kafka_error"]["name"] == f"{kind.upper()}_AUTHORIZATION_FAILED"
        assert there.json() | {"instance": ""} == nowhere.json() | {"instance": ""}
    assert olga.asks(key).status_code not in (403, 500)
    assert not WorkItem.objects.exclude(principal__in=("olga", "ben")).exists()


@pytest.mark.parametrize("key", of(Needs.NAMED, Needs.WHOLE_CLUSTER, Needs.EVERY_TOPIC), ids=" ".join)
def test_what_is_asked_beyond_the_token_is_refused_and_not_asked(key: tuple[str, str]) -> None:
    olga, rule = Olga(Role.OPERATOR), TABLE[key]
    asked = WorkItem.objects.count()
    assert rule.bodies or key[1] in ("GET", "DELETE"), "say in the table what is beyond"
    for body in rule.bodies or (NOTHING,):
        refused = olga.asks(key, body)
        assert refused.status_code == 403
        assert refused.json()["kafka_error"]["name"] in (
            "TOPIC_AUTHORIZATION_FAILED",
            "CLUSTER_AUTHORIZATION_FAILED",
        )
    assert WorkItem.objects.count() == asked


@pytest.mark.parametrize("key", of(Needs.WHOLE_CLUSTER), ids=" ".join)
@pytest.mark.parametrize(("topics", "groups"), [(("orders",), ()), ((), ("team-*",))])
def test_the_whole_cluster_is_for_whom_neither_kind_of_names_bounds(
    key: tuple[str, str], topics: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    olga = Olga(Role.OPERATOR, topics, groups)
    refused = olga.asks(key, *TABLE[key].bodies[:1])
    assert refused.status_code == 403
    assert refused.json()["kafka_error"]["name"] == "CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("key", of(Needs.ROWS, Needs.NOTHING), ids=" ".join)
@pytest.mark.parametrize(
    ("topics", "groups", "secrets"),
    [
        (("orders",), ("team-*",), ("payments", "cards", "ben")),
        (("orders",), (), ("cards", "ben")),
        ((), ("team-*",), ("payments", "ben")),
    ],
)
def test_what_is_told_without_a_name_holds_none_that_is_beyond_the_token(
    key: tuple[str, str], topics: tuple[str, ...], groups: tuple[str, ...], secrets: tuple[str, ...]
) -> None:
    told = Olga(Role.OPERATOR, topics, groups).asks(key)
    assert told.status_code == 200
    text = told.content.decode()
    assert not [secret for secret in secrets if re.search(rf"\b{secret}\b", text)]
    if TABLE[key].needs is Needs.ROWS and key[0] != "api-findings":
        assert told.json()["items"], "give the night of this test a row that it may know"


@pytest.mark.parametrize("key", of(Needs.ITSELF), ids=" ".join)
def test_by_an_id_it_is_told_as_little_of_another_as_of_none(
    key: tuple[str, str], night: dict[str, tuple[str, str]]
) -> None:
    olga = Olga(Role.OPERATOR)
    part = "move_id" if "move_id" in ROUTES[key] else "request_id"
    own, others = night[part if part in night else key[0]]
    there, nowhere = (olga.asks(key, names={part: one}) for one in (others, str(uuid4())))
    assert (there.status_code, nowhere.status_code) == (404, 404)
    assert there.json() | {"instance": ""} == nowhere.json() | {"instance": ""}
    assert olga.asks(key, names={part: own}).status_code in (200, 202)
