"""This room lets addresses hold every name that a group may have: with slashes, and of several lines."""

from typing import Final

from django.urls import register_converter
from django.urls.converters import PathConverter

ANY_NAME: Final = "name"


class AnyName(PathConverter):
    """Django's own takes every letter but the end of a line: no page could name such a group."""

    regex = r"[\s\S]+"


register_converter(AnyName, ANY_NAME)
