"""Members for the coordinator's tests."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from pytest_django import DjangoDbBlocker

from tests.conftest import pointed_at
from tests.integration.coordinator.control_plane import PATIENCE_S, ControlPlane
from tests.integration.coordinator.member import ScriptedMember

NewMember = Callable[..., ScriptedMember]


@pytest.fixture
async def new_member(request: pytest.FixtureRequest, group: str) -> AsyncIterator[NewMember]:
    """Makes members of `group` that are hung up at the end of the test; `node` says where they connect."""
    used: ControlPlane = request.getfixturevalue(
        "two_nodes" if "two_nodes" in request.fixturenames else "plane"
    )
    token = used.token()
    async with AsyncExitStack() as at_the_end:

        def make(consumer_id: str, node: str = "node-1") -> ScriptedMember:
            member = ScriptedMember(used.addresses[node], token, group, consumer_id)
            at_the_end.push_async_callback(member.vanish)
            return member

        yield make


@pytest.fixture
def database(
    plane: ControlPlane, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Django's rows are those of the shared control plane; doors wait for its answers until they come."""
    monkeypatch.setattr("runtime.asking.WAIT_S", PATIENCE_S)
    with django_db_blocker.unblock(), pointed_at(plane.database_url):
        yield
