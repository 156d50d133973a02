"""This room is what all doors of REST do alike: say what they answer, pass over nothing that was asked."""

from collections.abc import Collection
from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from access.rest.problems import Problem
from muster.kernel.error_codes import ErrorCode


class RestView(APIView):
    """One address of REST."""

    @property
    def allowed_methods(self) -> list[str]:
        """What Allow says. OPTIONS is refused here as whatever else does not read."""
        return [method for method in super().allowed_methods if method != "OPTIONS"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Let in who may come. Where nobody reads it, `validate_only` would keep nothing from being done."""
        super().initial(request, *args, **kwargs)
        if request.method not in self.allowed_methods:
            return
        if request.method in ("POST", "PATCH"):
            query_of(request)
        elif request.method == "DELETE" and request.body:
            raise Problem(400, "What a DELETE says stands in its address, as ?reason=…: it has no body.")


def query_of(request: Request, names: Collection[str] = ()) -> dict[str, str]:
    """The parameters of an address that is no list's; one that is unknown or given twice is Problem 400."""
    for name, values in request.query_params.lists():
        if name not in names or len(values) > 1:
            what = "is given twice" if name in names else "is not known here"
            raise Problem(400, f"Parameter {name[:60]!r} {what}.", ErrorCode.INVALID_REQUEST)
    return {name: str(value) for name, value in request.query_params.items()}
