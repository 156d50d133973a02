"""This room lets addresses hold every name that a group may have: with slashes, and of several lines."""

import re
from typing import Final

from django.urls import register_converter
from django.urls.converters import PathConverter

ANY_NAME: Final = "name"
ANY_NAME_IN_A_LINK: Final = "linked"

_DOTS: Final = re.compile(r"(?<![^/])(~*\.\.?)(?![^/])")
"""A part of a name that a browser takes for the way up, and those that would be read as such a one."""

_DOTS_IN_A_LINK: Final = re.compile(r"(?<![^/])~(~*\.\.?)(?![^/])")


class AnyName(PathConverter):
    """Django's own takes every letter but the end of a line: no page could name such a group."""

    regex = r"[\s\S]+"


class AnyNameInALink(AnyName):
    """Also `..` and `a/../b`, of which a browser, however they are quoted, would make the address of another.

    `a/~../b` stands for it in the addresses of pages, and one tilde more for what is called so itself.
    """

    def to_python(self, value: str) -> str:
        return _DOTS_IN_A_LINK.sub(r"\1", value)

    def to_url(self, value: str) -> str:
        return _DOTS.sub(r"~\1", value)


register_converter(AnyName, ANY_NAME)
register_converter(AnyNameInALink, ANY_NAME_IN_A_LINK)
