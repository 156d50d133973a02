"""This room handles what happens to a classic group, one thing after the other."""

from coordinator.core.classic import rebalancing
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.classic.joining import join
from coordinator.core.classic.leaving import leave, look_after_sessions
from coordinator.core.classic.syncing import look_for_debtors, sync
from coordinator.core.events import GroupEvent, ItemFailed, ItemFinished, Join, Leave, OutsideOffsets, Sync
from coordinator.core.worlds import refuse_native
from groups.core import records


def happened(draft: ClassicDraft, event: GroupEvent) -> None:
    """One thing that happened."""
    # By type, as these two are most of all: see `decide`.
    if type(event) is Join:
        join(draft, event)
        return
    if type(event) is Sync:
        sync(draft, event)
        return
    match event:
        case Leave():
            leave(draft, event)
        case ItemFinished() | ItemFailed():
            if draft.rows.handler_asked:
                # It was asked for in the native world: its result is of no use here.
                draft.record(records.ItemAdopted(event.item_id))
        case OutsideOffsets():
            draft.enter_world()
        case _:
            refusal = refuse_native(event)
            if refusal is not None:
                draft.replies.append(refusal)


def settle(draft: ClassicDraft) -> None:
    """The end of each turn: what is due by `now`, then a join phase that all have joined."""
    look_after_sessions(draft)
    look_for_debtors(draft)
    rebalancing.settle(draft)
