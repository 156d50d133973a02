"""This room signs people in for tests of pages, and shares one web process among the tests of a module."""

from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django import DjangoDbBlocker

from access.grants import Role
from access.service import create_user
from groups import standing
from standalone.postgres import Postgres
from tests.conftest import database_of_its_own
from tests.integration.web import cast
from tests.integration.web.served import SharedWeb, WebProcess


@pytest.fixture(autouse=True)
def forget_standing() -> None:
    """What the test before read is not told in this one: its rows are gone, whatever they add up to."""
    standing.forget()


@pytest.fixture(autouse=True)
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No controller runs here: whoever asks one need not wait to hear that it does not answer."""
    monkeypatch.setattr("runtime.asking.WAIT_S", 0.0)


@pytest.fixture
def viewer(db: None, client: Client) -> Client:
    """A browser with the session of a viewer."""
    client.force_login(create_user("mira", Role.VIEWER, None))
    return client


@pytest.fixture
def operator(db: None, client: Client) -> Client:
    """A browser with the session of an operator, and three brokers that live."""
    cast.add_cluster()
    for broker in range(1, 4):
        cast.add_broker(broker)
    client.force_login(create_user("olga", Role.OPERATOR, None))
    return client


@pytest.fixture(scope="module")
def shared_web(
    postgres_server: Postgres,
    migrated_template: str,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SharedWeb]:
    """A web process on a database of this module: its start costs more than most tests of it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        database_of_its_own(postgres_server, migrated_template, django_db_blocker, patch),
    ):
        shared = SharedWeb(tmp_path_factory.mktemp("web") / "web.log")
        yield shared
        shared.stop()


@pytest.fixture
def web(shared_web: SharedWeb) -> WebProcess:
    """The web process on empty tables."""
    return shared_web.for_a_test()
