"""This room words what a member states otherwise than before, for whoever reads why a group rebalanced."""

from collections.abc import Sequence
from typing import Final

from groups.core.classic import ClassicMember
from groups.core.consumer_protocol import stated_subscription

METADATA: Final = "other metadata"
"""An assignor's own, or what nobody else can read: a Streams application probes, a group is of workers."""

_NAMED_MAX: Final = 2
_PROTOCOLS_MAX: Final = 4
_NAME_LENGTH: Final = 60
"""Of a protocol: the frame alone bounds what a client calls one, and how many it names."""


LOOKED_INTO_BYTES: Final = 8_192
"""Of a subscription: to read one of a thousand topics takes milliseconds."""


def words(before: ClassicMember, now: ClassicMember, *, briefly: bool = False) -> str:
    """What is new, so that "it joined with" goes on with it; empty if nothing is.

    `briefly`: nothing is read of what a member states, as where thousands join one after the other.
    """
    supported, known = [name for name, _ in now.protocols], [name for name, _ in before.protocols]
    if supported != known:
        more = len(supported) - _PROTOCOLS_MAX
        named = ", ".join(name[:_NAME_LENGTH] for name in supported[:_PROTOCOLS_MAX])
        return f"other protocols: {named}" + (f" and {more} more" if more > 0 else "")
    if before.protocols != now.protocols:
        return METADATA if briefly else _of_metadata(before, now)
    if (before.session_timeout_ms, before.rebalance_timeout_ms) != (
        now.session_timeout_ms,
        now.rebalance_timeout_ms,
    ):
        return "other timeouts"
    return (
        "" if (before.client_id, before.client_host) == (now.client_id, now.client_host) else "another client"
    )


def _of_metadata(before: ClassicMember, now: ClassicMember) -> str:
    changed = (
        (old, new) for (_, old), (_, new) in zip(before.protocols, now.protocols, strict=True) if old != new
    )
    both = next(changed)
    if max(map(len, both)) > LOOKED_INTO_BYTES:
        return METADATA
    was, is_now = map(stated_subscription, both)
    if was is None or is_now is None:
        return METADATA
    if was.topics != is_now.topics:
        more = sorted(set(is_now.topics) - set(was.topics))
        less = sorted(set(was.topics) - set(is_now.topics))
        told = [f"{sign}{_some(names)}" for sign, names in (("+", more), ("−", less)) if names]
        return f"other topics: {' '.join(told)}"
    if was.rack != is_now.rack:
        return "another rack"
    return "other partitions of its own" if was.owned != is_now.owned else METADATA


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED_MAX else f"{len(names)} topics"
