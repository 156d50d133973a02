"""This room knows what a topic may be called (conformance 199)."""

import re
from typing import Final

WHAT_CAN_NAME_A_TOPIC: Final = (
    "a topic's name has 1 to 249 letters, digits, '.', '_' and '-', and is neither '.' nor '..'"
)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def can_name_a_topic(name: str) -> bool:
    """True if a topic of this name may be created; if not, there can be none, now or later."""
    return name not in (".", "..") and _NAME.fullmatch(name) is not None
