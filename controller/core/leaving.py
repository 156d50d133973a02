"""This room lets brokers go: who is about to stop leads until others lead what they can (replication.md 2).

A broker's `leaving` is a row, as it concerns every election; how far its leaving is, is memory: after a
takeover its next hello says it again.
"""

from dataclasses import replace

import msgspec

from controller.core import leaders
from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from controller.core.state import Leaver, Memory
from muster.messages.link.to_broker import MayLeave


def ask(draft: Draft, link: LinkId) -> None:
    """The broker of a bound link says that it will stop; the end of this turn begins to move its part."""
    broker_id = draft.memory.broker_of(link)
    known = draft.broker(broker_id) if broker_id is not None else None
    assert broker_id is not None and known is not None
    if not known.leaving:
        draft.put_broker(msgspec.structs.replace(known, leaving=True))
    draft.memory.leaving[broker_id] = Leaver()


def look_again(draft: Draft) -> None:
    """Somebody who may lead is there: who has not been let go yet may have something to move again."""
    for broker_id, one in draft.memory.leaving.items():
        if not one.told:
            draft.memory.leaving[broker_id] = Leaver()


def go_on(draft: Draft) -> None:
    """Move what the turn has room for."""
    for broker_id, one in draft.memory.leaving.items():
        if one.moved_at is None and leaders.leave(draft, broker_id):
            # At the end of the turn it is known whether it has a version of its own.
            draft.memory.leaving[broker_id] = replace(one, moved_at=draft.version)


def release(draft: Draft, version: int) -> None:
    """Let those go who have nothing left to wait for; `version` is what is true at the end of this turn."""
    for broker_id, one in draft.memory.leaving.items():
        if one.moved_at is not None and one.moved_at > version:
            draft.memory.leaving[broker_id] = replace(one, moved_at=version)
    for broker_id in _releasable(draft.memory):
        session = draft.memory.sessions[broker_id]
        draft.memory.leaving[broker_id] = replace(draft.memory.leaving[broker_id], told=True)
        draft.replies.append(Say(session.link, MayLeave()))


def is_anybody_released(memory: Memory) -> bool:
    """True if the next turn lets somebody go: a broker has said that it applied what others waited for."""
    return bool(memory.leaving) and bool(_releasable(memory))


def _releasable(memory: Memory) -> list[int]:
    """Those whose successors know that they lead, and whose clients are told so by everybody."""
    return [
        broker_id
        for broker_id, one in memory.leaving.items()
        if not one.told
        and one.moved_at is not None
        and (own := memory.sessions.get(broker_id)) is not None
        and own.link is not None
        and all(session.applied >= one.moved_at for session in memory.sessions.values())
    ]
