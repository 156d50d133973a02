"""This room writes whom a quota is for: a name, each of those without one, or whichever."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from web.templatetags.written import brief

register = template.Library()

LONGEST = 40


@register.simple_tag
def quota_name(name: str | None, any_of_them: str, each: str = "none stated") -> SafeString:
    """None is whichever; the empty name is the default of quotas, and of a client that states none."""
    if not name:
        return format_html('<span class="quiet">{}</span>', any_of_them if name is None else each)
    return format_html("<span>{}</span>", brief(name, LONGEST))
