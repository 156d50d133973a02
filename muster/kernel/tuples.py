"""This room makes named tuples in one step: their own constructors are functions in Python, and take twice as
long.
"""

from typing import Final

made: Final = tuple.__new__
"""`made(Place, (topic, partition))`: every field, in order, those with defaults too. Nothing counts them."""
