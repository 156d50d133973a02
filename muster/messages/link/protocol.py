"""This room numbers what the two ends of a broker's link understand, so that either may be the newer one.

Fields are only appended, with defaults; a frame of a kind that is new is said to nobody whose hello, or whose
answer to one, states a lower number than that of its kind. 0 is who states none.
"""

from typing import Final

LEAVES: Final = 1
"""Understands Leaving and MayLeave."""

WISHES: Final = 2
"""Understands every wish, not only CreateTopics and AllocateProducerIds."""

REMOVES: Final = 3
"""Understands that a topic has fewer partitions than before, and that others come under their numbers."""

LOOKS_FOR_CALLERS: Final = 4
"""Understands LookForCaller and CallerLookedFor."""

SHOWS_LOGS: Final = 5
"""Understands LogEnds: a broker that says it shows its logs where a row is unproven."""

LINK_PROTOCOL: Final = SHOWS_LOGS
"""What this version states."""
