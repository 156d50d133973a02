"""This room says which theme a browser's person chose: the script of pages keeps it in a cookie."""

from collections.abc import Mapping
from typing import Final

THEMES: Final = ("light", "dark")
COOKIE: Final = "muster_theme"


def theme_in(cookies: Mapping[str, str]) -> str:
    """Light or dark, as this browser's person chose; empty: as its system is."""
    theme = cookies.get(COOKIE, "")
    return theme if theme in THEMES else ""
