"""This room tells templates what a form of configs shows in each of its fields."""

from collections.abc import Mapping
from typing import Any

from django import template

register = template.Library()


@register.simple_tag
def stated_config(stated: Mapping[str, str], known: Any) -> str:
    """What was typed into the field, else what is set."""
    return str(stated.get(f"config.{known.name}", known.set_to))
