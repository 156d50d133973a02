"""This room names what a list of groups may be asked for; pages and REST read it alike."""

from collections.abc import Mapping
from typing import Any

from access.filters import number_filter, text_filter, word_filter
from groups.models import Phase, Protocol
from groups.queries import GroupFilter
from muster.kernel.scopes import EVERYTHING, Scope

GROUP_FILTERS = (
    text_filter("q", "Group or topic contains, in capitals or not."),
    word_filter("phase", Phase.values, "Only groups in this phase."),
    text_filter("topic", "Only groups that own or have committed partitions of this topic."),
    word_filter("protocol", Protocol.values, "Only groups whose members speak this protocol."),
    number_filter("lag_over", "Only groups whose known lag is at least this.", bits=63),
)


def group_filter(
    asked: Mapping[str, Any], groups: Scope = EVERYTHING, topics: Scope = EVERYTHING
) -> GroupFilter:
    """The question that the filters of an address ask, of somebody who may know of these."""
    phase = asked.get("phase")
    return GroupFilter(
        asked.get("q", ""),
        (phase,) if phase else (),
        asked.get("topic", ""),
        asked.get("lag_over"),
        asked.get("protocol", ""),
        groups,
        topics,
    )
