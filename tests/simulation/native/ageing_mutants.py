"""This room breaks rules of what goes by itself: offsets and groups by age, offsets of removed partitions."""

from coordinator.core import expiry
from coordinator.housekeeping import Housekeeping
from tests.simulation.native.mutants import Mutant, Patch

SEEN_TO_GO = "for one in state.memory.dirty):"
FORGETS = "_forget_dirty(draft, lambda one: (one.topic_id"

MUTANTS = (
    Mutant(
        "goes_on_sight",
        "what is committed for a number goes when another partition is seen under it, old or new",
        (
            Patch(Housekeeping.are_gone, SEEN_TO_GO, "for one in offsets):"),
            Patch(expiry.happened, FORGETS, FORGETS.replace("_forget_dirty", "_let_go")),
        ),
        seeds=(78,),
    ),
    Mutant(
        "removed_stays",
        "nobody decides about what is found of partitions that were removed",
        (Patch(Housekeeping._look, "if key in found.removed", "if False"),),
        seeds=(1718,),
    ),
    Mutant(
        "goes_under_readers",
        "offsets go by their age from a group whose members read them",
        (Patch(expiry._Read.is_over, "or self._reads(one.partition.topic)", "or False"),),
        seeds=(66,),
    ),
)
