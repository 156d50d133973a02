"""This room holds what is durable of a group whose members speak Kafka's classic protocol.

Metadata and assignments are bytes of whatever protocol the members speak; nothing here looks into them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Struct

CLASSIC = "classic"

LAST_TOLD: Final = 2**31 - 1
"""The highest generation that Kafka's protocol has room for."""


def told_generation(generation: int) -> int:
    """What Kafka's clients hear and state of it: it has 32 bits there and 63 here (conformance 65).

    1 follows the last, as in fetch sessions: 0 is that of a group which never had members, and whoever states
    a negative one is no member. A member would have to sleep through all of them to be taken for another.
    """
    return generation if generation <= LAST_TOLD else (generation - 1) % LAST_TOLD + 1


def bytes_of(protocols: Iterable[tuple[str, bytes]]) -> int:
    """How long all metadata are together."""
    total = 0
    for _, metadata in protocols:
        total += len(metadata)
    return total


class Stated(Protocol):
    """What a JoinGroup states of its member, beside names; a fact more is compared in `states_the_same`."""

    @property
    def session_timeout_ms(self) -> int: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...

    @property
    def protocols(self) -> tuple[tuple[str, bytes], ...]: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...


def states_the_same(one: Stated, other: Stated) -> bool:
    """Whether nothing is new in what is stated, whoever it is and whatever was assigned."""
    return (
        one.protocols == other.protocols
        and one.session_timeout_ms == other.session_timeout_ms
        and one.rebalance_timeout_ms == other.rebalance_timeout_ms
        and one.client_id == other.client_id
        and one.client_host == other.client_host
    )


class ClassicMember(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One member, from the decision on that its JoinGroup was taken.

    `protocols` are names with metadata, in the order in which the member prefers them. `group_instance_id`
    names a static member. `assignment` is what the leader gave it; it counts only while the group is Stable.
    Whether the member has joined in this rebalance is memory of the owner.
    """

    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    assignment: bytes = b""

    @property
    def metadata_bytes(self) -> int:
        """How much it states of itself."""
        return bytes_of(self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member stated for this protocol; empty if it does not know it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


@dataclass(frozen=True, slots=True)
class ClassicRows:
    """What a classic group has beside generation, phase and offsets.

    A simple group, of which only offsets are known, has no protocol type and no member. `protocol_name` is
    what the last completed join phase chose; `leader` assigns, and is not known between its departure and
    the end of the next join phase.
    """

    protocol_type: str = ""
    protocol_name: str | None = None
    leader: str | None = None
    members: Mapping[str, ClassicMember] = field(default_factory=dict)
