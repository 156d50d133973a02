"""This room says what the database itself must refuse: rows that would keep the controller from all others.

Whoever writes by hand hears it at once. What got in would fail the load, or each broker's hello.
"""

from django.db.models import BooleanField, F, Func, Value
from django.db.models.fields import IntegerField
from django.db.models.lookups import Exact, IsNull

_TEXTS_BY_NAME = 'strict $ ? (@.type() == "object" && !exists(@.* ? (@.type() != "string")))'


def holds_texts_by_name(column: str) -> Exact:
    """The column is an object of JSON, and each of its values is a text."""
    found = Func(F(column), Value(_TEXTS_BY_NAME), function="jsonb_path_exists", output_field=BooleanField())
    return Exact(found, Value(True))


def holds_no_null(column: str) -> IsNull:
    """No element of the array is NULL."""
    return IsNull(Func(F(column), Value(None), function="array_position", output_field=IntegerField()), True)
