"""This room is the simulated network: frames keep their order, links break, both ends notice late."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from muster.messages import codec
from muster.messages.member import FromMember, ToMember
from muster.messages.partitions import Partition

if TYPE_CHECKING:
    from tests.simulation.native.world import World

Truth = dict[Partition, int]
"""Beside a frame, what the world knows: the generation under which each offset was really fetched."""


class OwnerEnd(Protocol):
    """The coordinator's side."""

    def frame_arrived(self, connection: Connection, text: str, truth: Truth) -> None: ...
    def connection_lost(self, connection: Connection) -> None: ...


class MemberEnd(Protocol):
    """The consumer's side."""

    def frame_arrived(self, connection: Connection, message: ToMember) -> None: ...
    def connection_lost(self, connection: Connection) -> None: ...


@dataclass(eq=False)
class Connection:
    """One websocket between a member and an owner."""

    world: World
    id: str
    owner: OwnerEnd
    member: MemberEnd
    whole: bool = True
    owner_open: bool = True
    member_open: bool = True
    deaf: bool = False
    _last_to_owner: float = 0.0
    _last_to_member: float = 0.0
    _noticed: set[str] = field(default_factory=set)

    def to_owner(self, message: FromMember, truth: Truth) -> None:
        """The member sends; what is under way when the link breaks is lost."""
        frame = codec.encode(message)
        self._last_to_owner = self._arrival(self._last_to_owner)

        def arrive() -> None:
            if self.whole and self.owner_open and not self.deaf:
                self.owner.frame_arrived(self, frame.decode(), truth)

        self.world.later(self._last_to_owner - self.world.now, arrive)

    def to_member(self, frame: bytes) -> None:
        """The owner sends."""
        self._last_to_member = self._arrival(self._last_to_member)

        def arrive() -> None:
            if self.whole and self.member_open:
                self.member.frame_arrived(self, codec.decode_to_member(frame.decode()))

        self.world.later(self._last_to_member - self.world.now, arrive)

    def close_by_member(self) -> None:
        """The member hangs up: unread frames are gone; the owner reads what was sent, then the end."""
        self.member_open = False
        self._last_to_owner = self._arrival(self._last_to_owner)
        self.world.later(self._last_to_owner - self.world.now, self._owner_notices)

    def close_by_owner(self) -> None:
        """The owner hangs up: the member reads what was sent, then the end."""
        self.owner_open = False
        self._last_to_member = self._arrival(self._last_to_member)
        self.world.later(self._last_to_member - self.world.now, self._member_notices)

    def break_link(self, at_most_ms: float) -> None:
        """A cable is pulled, or one side died; each side notices by itself, within this time."""
        self.whole = False
        chance = self.world.chance
        self.world.later(chance.uniform(0, at_most_ms), self._owner_notices)
        self.world.later(chance.uniform(0, at_most_ms), self._member_notices)

    def lose_what_the_member_says(self, for_ms: float) -> None:
        """One direction is cut; nobody notices before the connection breaks."""
        self.deaf = True
        self.world.later(for_ms, lambda: self.break_link(1_000))

    def _owner_notices(self) -> None:
        if self.owner_open and "owner" not in self._noticed:
            self._noticed.add("owner")
            self.owner.connection_lost(self)

    def _member_notices(self) -> None:
        if self.member_open and "member" not in self._noticed:
            self._noticed.add("member")
            self.member.connection_lost(self)

    def _arrival(self, last: float) -> float:
        chance = self.world.chance
        slow = chance.random() < 0.03 and not self.world.quiet
        delay = chance.uniform(100, 2_500) if slow else chance.uniform(0.2, 8)
        return max(last + 0.001, self.world.now + delay)
