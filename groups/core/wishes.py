"""This room names once what a member states when it registers; its row and its records have these fields."""

from typing import Any

from msgspec import Struct

from muster.messages.member import TopicCount


class MemberWishes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may change at each Register; `client_host` is the peer's address as the door saw it.

    `stands_by`: the member may be given partitions to stand by for, of which it is no owner.
    """

    topic_count: tuple[TopicCount, ...]
    session_timeout_ms: int
    auto_commit: bool = True
    auto_offset_reset: str = "latest"
    client_id: str = ""
    client_host: str = ""
    rack: str = ""
    stands_by: bool = False

    def by_name(self) -> dict[str, Any]:
        """The wishes alone, of whatever holds them."""
        return {name: getattr(self, name) for name in MemberWishes.__struct_fields__}
