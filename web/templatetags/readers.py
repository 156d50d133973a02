"""This room tells templates of the cluster who reads a topic: groups, which the controller does not know."""

from typing import Any

from django import template

from groups.offset_queries import Readers, readers_of_topic

register = template.Library()

READERS_SHOWN = 20


@register.simple_tag
def readers_of(topic: Any) -> Readers:
    """The groups that committed something for the topic, those that read it now first."""
    return readers_of_topic(topic.topic_id, READERS_SHOWN)
