"""This room asks a caller's role for the operation that a REST door needs."""

from typing import Any

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from access.grants import Operation
from access.tokens import Caller


class May(BasePermission):
    """Lets in a caller whose role includes `operation`: no token is 401, a role without it is 403."""

    operation: Operation

    def has_permission(self, request: Request, view: Any) -> bool:
        caller = request.auth
        if not isinstance(caller, Caller):
            raise NotAuthenticated("A token is needed: Authorization: Bearer mst_…")
        role, operation = caller.role.value, self.operation.value
        self.message = f"The role {role} may not {operation}. An administrator gives roles."
        return caller.may(self.operation)


class MayView(May):
    operation = Operation.VIEW


class MayOperate(May):
    operation = Operation.OPERATE
