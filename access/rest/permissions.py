"""This room asks a caller's token for what a REST door needs: an operation, and the names in its address."""

from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from access.grants import Operation
from access.rest.problems import Problem
from access.tokens import Caller
from muster.kernel.error_codes import ErrorCode


class May(BasePermission):
    """Lets in a caller whose role includes `operation`, and whose token is good for the named group or topic:
    no token is 401, another one 403.
    """

    operation: Operation

    def has_permission(self, request: Request, view: Any) -> bool:
        caller = request.auth
        if not isinstance(caller, Caller):
            raise NotAuthenticated("A token is needed: Authorization: Bearer mst_…")
        role, operation = caller.role.value, self.operation.value
        self.message = f"The role {role} may not {operation}. An administrator gives roles."
        return caller.may(self.operation) and self._is_within_its_token(caller, view.kwargs)

    def _is_within_its_token(self, caller: Caller, named: Mapping[str, Any]) -> bool:
        """Whether the token is good for the group and the topic that the address names. Raises Problem."""
        for what, scope, error in (
            ("group", caller.groups, ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ("topic", caller.topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ):
            if what in named and not scope.covers(named[what]):
                raise Problem(403, f"The token is not good for this {what}.", error)
        return True


class MayView(May):
    operation = Operation.VIEW


class MayOperate(May):
    operation = Operation.OPERATE
