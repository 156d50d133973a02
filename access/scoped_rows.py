"""This room bounds a list of rows to the names that a token is good for: in the ORM's words, and in SQL."""

from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q

from muster.kernel.scopes import Scope


def within(scope: Scope, column: str) -> Q:
    """Rows whose `column` is a name that `scope` covers."""
    if scope.is_everything:
        return Q()
    return reduce(
        or_,
        (Q(**{f"{column}__startswith": prefix}) for prefix in scope.prefixes),
        Q(**{f"{column}__in": scope.literals}),
    )


def covers(what: str, column: str) -> str:
    """The condition that the scope called `what`, given by `values_of`, covers `column`."""
    return f"""(%({what}_all)s OR {column} = ANY (%({what}_names)s) OR EXISTS (
        SELECT FROM unnest(%({what}_prefixes)s::text[]) AS prefix WHERE starts_with({column}, prefix)))"""


def values_of(what: str, scope: Scope) -> dict[str, Any]:
    """The values for the conditions of `covers`."""
    return {
        f"{what}_all": scope.is_everything,
        f"{what}_names": sorted(scope.literals),
        f"{what}_prefixes": list(scope.prefixes),
    }
