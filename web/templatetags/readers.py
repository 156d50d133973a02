"""This room tells templates of the cluster who reads a topic: groups, which the controller does not know."""

from typing import Any

from django import template
from django.db import connection

from groups import unread
from groups.offset_queries import Readers, readers_of_topic

register = template.Library()

READERS_SHOWN = 20


@register.simple_tag
def readers_of(topic: Any) -> Readers:
    """The groups that committed something for the topic, those that read it now first."""
    return readers_of_topic(topic.topic_id, READERS_SHOWN)


@register.simple_tag
def unread_of(topic: Any, first: int) -> dict[str, Any]:
    """What groups have not read of the topic's partitions from this one on."""
    found = unread.find(connection, topic.name, first)
    return {"rows": [one._asdict() for one in found[:READERS_SHOWN]], "more": len(found) > READERS_SHOWN}
