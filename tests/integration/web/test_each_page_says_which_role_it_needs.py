"""Each page needs an operation, which the role of whoever is signed in must include: this table.

A page that is new fails until it stands here, and then until it does as it says.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from access.grants import Operation, Role, role_may
from access.service import create_user
from tests.integration.web import cast

pytestmark = pytest.mark.django_db

VIEW, OPERATE = Operation.VIEW, Operation.OPERATE

TABLE: Final[dict[str, Operation | None]] = {
    # Whoever comes: to sign in, and probes.
    "login": None,
    "login-once": None,
    "logout": None,
    "readyz": None,
    # By a token or a session, as REST.
    "metrics": VIEW,
    "overview": VIEW,
    "groups": VIEW,
    "group": VIEW,
    "request": VIEW,
    "cluster": VIEW,
    "topics": VIEW,
    "topic": VIEW,
    "partition": VIEW,
    "brokers": VIEW,
    "broker": VIEW,
    "losses": VIEW,
    "quotas": VIEW,
    "reassignments": VIEW,
    "plans": VIEW,
    "plan": VIEW,
    "cluster-requests": VIEW,
    "cluster-request": VIEW,
    "journal": VIEW,
    "ask": OPERATE,
    "ask-cluster": OPERATE,
    "ask-topic": OPERATE,
    "ask-partition": OPERATE,
    "ask-broker": OPERATE,
    "ask-plan": OPERATE,
    "ask-quota": OPERATE,
    "ask-loss": OPERATE,
    "ask-move": OPERATE,
}
"""None: everybody."""

NO_ID: Final = "00000000-0000-4000-8000-000000000001"
VALUES: Final = {
    "<linked:name>": "departures", "<str:name>": "flights", "<str:kind>": "delete_group",
    "<slug:kind>": "create-topic", "<int:number>": "0", "<int:broker_id>": "1", "<str:secret>": "secret",
}  # fmt: skip


def pages() -> Iterator[tuple[str, str]]:
    """The name and an address of each page that is neither REST's nor of Django's admin."""

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, str]]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if route.startswith(("api/", "admin/", "^")):
                continue
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
                continue
            assert pattern.name, f"{route} needs a name"
            for part, value in VALUES.items():
                route = route.replace(part, value)
            for part in ("plan_id", "move_id", "request_id"):
                route = route.replace(f"<uuid:{part}>", NO_ID)
            for part in ("quota_id", "loss_id"):
                route = route.replace(f"<int:{part}>", "1")
            assert "<" not in route, "give the part of the address a value above"
            yield pattern.name, f"/{route}"

    return walk(get_resolver().url_patterns, "")


ADDRESSES: Final = dict(pages())
GUARDED: Final = sorted(name for name, operation in TABLE.items() if operation is not None)


@pytest.fixture(autouse=True)
def night(db: None) -> None:
    cast.one_night(groups=1)


def browser(role: Role) -> Client:
    """Of somebody with this role."""
    client = Client(raise_request_exception=False)
    client.force_login(create_user(f"{role.value}-of-the-test", role, None))
    return client


def test_every_page_stands_in_the_table_and_no_other() -> None:
    assert TABLE.keys() == ADDRESSES.keys()


@pytest.mark.parametrize("verb", ["get", "post"])
def test_whoever_has_not_signed_in_is_led_to_the_page_that_does(verb: str) -> None:
    def answer(name: str) -> tuple[int, str]:
        led: Any = getattr(Client(), verb)(ADDRESSES[name])
        return led.status_code, led["Location"].partition("?")[0]

    pages = [name for name in GUARDED if name != "metrics"]
    assert {name: answer(name) for name in pages} == dict.fromkeys(pages, (302, "/login/"))


@pytest.mark.parametrize("role", list(Role))
def test_a_page_opens_to_those_whose_role_includes_what_it_needs(role: Role) -> None:
    signed_in = browser(role)
    opened = {name: signed_in.get(ADDRESSES[name]).status_code for name in GUARDED}
    closed = {name for name, status in opened.items() if status in (401, 403)}
    assert closed == {name for name in GUARDED if not role_may(role, TABLE[name] or VIEW)}
    assert set(opened.values()) <= {200, 404, 401, 403}


@pytest.mark.parametrize("role", [role for role in Role if not role_may(role, OPERATE)])
def test_nothing_is_asked_by_whoever_may_not_operate(role: Role) -> None:
    signed_in, said = browser(role), {"go": "1", "reason": "we test"}
    forms = [name for name in GUARDED if TABLE[name] is OPERATE]
    asked = {name: signed_in.post(ADDRESSES[name], said).status_code for name in forms}
    assert asked == dict.fromkeys(forms, 403)
    refusal = signed_in.post(ADDRESSES[forms[0]], said).content
    assert b"You may not do this" in refusal and b"Nothing was changed." in refusal


def test_a_page_that_is_looked_at_takes_nothing() -> None:
    signed_in, shown = browser(Role.ADMIN), [name for name in GUARDED if TABLE[name] is VIEW]
    assert {name: signed_in.post(ADDRESSES[name]).status_code for name in shown} == dict.fromkeys(shown, 405)
