"""This room asks a caller's token for what a REST door needs: an operation, and the names in its address."""

from typing import Any, cast

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
        if not caller.may(self.operation):
            return False
        refuse_beyond(caller, group=view.kwargs.get("group"), topic=view.kwargs.get("topic"))
        return True


def caller_of(request: Request) -> Caller:
    """Who asks, at a door that has let it in."""
    return cast(Caller, request.auth)


def refuse_beyond(caller: Caller, *, group: str | None = None, topic: str | None = None) -> None:
    """Raise Problem 403 unless the token is good for what is named, whether it is there or not."""
    for what, name, scope, error in (
        ("group", group, caller.groups, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("topic", topic, caller.topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        if name is not None and not scope.covers(name):
            raise Problem(403, f"The token is not good for this {what}.", error)


def require_whole_cluster(caller: Caller) -> None:
    """Raise Problem 403 for a token that names bound: brokers and quotas are nobody's topic or group."""
    if not caller.is_unbounded:
        text = "The token is good for some topics or groups only, and this concerns the whole cluster."
        raise Problem(403, text, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class MayView(May):
    operation = Operation.VIEW


class MayOperate(May):
    operation = Operation.OPERATE
