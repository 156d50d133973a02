"""This room switches single rules of unregistering brokers off, to show that walks would notice.

Registered with the other mutants.
"""

from collections.abc import Iterator
from unittest.mock import patch

import msgspec

from controller.core import brokers, retiring
from controller.core.draft import Draft
from controller.core.events import Hello
from tests.simulation.replication.mutants import mutant
from tests.simulation.replication.topic_mutants import MUTANTS

__all__ = ["MUTANTS"]

MUTANTS["unregister_holders"] = lambda: patch.object(retiring, "_require_drained", lambda *_: None)
MUTANTS["unregister_keeps_moves"] = lambda: patch.object(retiring, "_comes_to", lambda *_: False)
MUTANTS["unregister_live"] = lambda: patch.object(retiring, "_require_stopped", lambda *_: None)


@mutant("epoch_begins_anew")
def _() -> Iterator[None]:
    """The first epoch of an id that comes again is 1, as that of the broker before."""
    hello = brokers.hello

    def from_1(draft: Draft, event: Hello) -> bool:
        is_new = draft.broker(event.frame.broker_id) is None
        done = hello(draft, event)
        if is_new and done:
            row = draft.brokers[event.frame.broker_id]
            draft.brokers[row.broker_id] = msgspec.structs.replace(row, broker_epoch=1)
        return done

    with patch.object(brokers, "hello", from_1):
        yield
