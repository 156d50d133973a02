"""What the database refuses in a turn of a running node is a row for people, and harms no other group."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from muster.kernel.error_codes import ErrorCode
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.coordinator.member import ScriptedMember

NewMember = Callable[..., ScriptedMember]
MISTAKE = "a mistake of ours, injected"


@pytest.fixture
def spoilt_group(plane: ControlPlane) -> Iterator[str]:
    """A group whose members the database refuses."""
    name = f"spoilt-{uuid4().hex[:8]}"
    plane.execute(
        "CREATE FUNCTION refuse_member() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION '{MISTAKE}' USING ERRCODE = 'data_exception'; END $$"
    )
    plane.execute(
        "CREATE TRIGGER refuse_member BEFORE INSERT ON group_member FOR EACH ROW"
        f" WHEN (NEW.group_name = '{name}') EXECUTE FUNCTION refuse_member()"
    )
    yield name
    plane.execute("DROP FUNCTION refuse_member() CASCADE")
    plane.execute("DELETE FROM refusal WHERE text = %s", MISTAKE)


async def test_a_member_that_no_row_can_hold_is_refused_and_operators_see_where_and_why(
    plane: ControlPlane, group: str, new_member: NewMember, spoilt_group: str
) -> None:
    spoilt = ScriptedMember(plane.addresses["node-1"], plane.token(), spoilt_group, "ann")
    await spoilt.connect()
    await spoilt.say_register()
    assert "UNKNOWN_SERVER_ERROR" in await spoilt.hung_up_on()
    rows = await eventually_async(
        lambda: plane.query("SELECT node, lane, key, events, number FROM refusal WHERE text = %s", MISTAKE),
        "what was refused is written",
    )
    lane = f"coordinator/{plane.shard(spoilt_group)}"
    assert rows == [("node-1", lane, spoilt_group, "RegisterConsumerRequest", 1)]
    ben = new_member("ben")
    await ben.connect()
    assert (await ben.register()).error_code == ErrorCode.NONE
