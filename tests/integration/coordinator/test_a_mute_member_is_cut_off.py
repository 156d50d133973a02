"""A member that owns partitions and does not do as it is told cannot keep them from the others."""

from collections.abc import Callable

from muster.kernel.error_codes import ErrorCode
from muster.messages.member import StopFetcherRequest
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.coordinator.member import ScriptedMember

NewMember = Callable[..., ScriptedMember]

EVERYTHING = (0, 1, 2, 3)
SHORT_MS = 4_000
LONGER_MS = 6_000
"""Between its end as a connection and the end of its session a third of this is left to come back in."""


async def test_whoever_answers_pings_but_no_stop_fetcher_loses_everything_when_its_session_ends(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben = new_member("ann"), new_member("ben")
    ann.session_timeout_ms = LONGER_MS
    ann.answers = {"ping", "start"}
    await ann.connect()
    await ann.register()
    await ann.owns(*EVERYTHING)
    await ben.connect()
    await ben.register()
    # Both StopFetchers stay unanswered for two thirds of the session; then it is cut off.
    assert "MEMBER_EXPELLED" in await ann.hung_up_on()
    assert sum(isinstance(one, StopFetcherRequest) for one in ann.heard) == 2
    assert not ben.owned
    [(error,)] = plane.query("SELECT error FROM consumer_group WHERE name = %s", group)
    assert "ann answers pings but not StopFetcher" in str(error)
    # It may still fetch, so its rows stay until its session is over, and it cannot prolong it by coming back.
    ann.heard.clear()
    await ann.connect()
    assert (await ann.register()).error_code == ErrorCode.DUPLICATE_CONSUMER_ID
    await ben.owns(*EVERYTHING)
    await eventually_async(lambda: plane.owners(group) == dict.fromkeys(EVERYTHING, "ben"), "ben has all")
    # As a new member it is welcome, and gets a share.
    ann.heard.clear()
    ann.owned.clear()
    answer = await ann.register()
    assert answer.error_code == ErrorCode.NONE and not answer.known
    await ann.owns_some(2)
    await ben.owns_some(2)


async def test_whoever_answers_no_ping_loses_everything_though_its_connection_stands(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben = new_member("ann"), new_member("ben")
    ann.session_timeout_ms = SHORT_MS
    await ann.connect()
    await ann.register()
    await ann.owns(*EVERYTHING)
    await ann.commit({0: 5})
    ann.answers.discard("ping")
    await ben.connect()
    await ben.register()
    await ben.owns(*EVERYTHING)
    assert ben.owned[0] == 5
    assert "session over" in await ann.hung_up_on()
    [(members,)] = plane.query("SELECT count(*) FROM group_member WHERE group_name = %s", group)
    assert members == 1
