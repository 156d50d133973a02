"""This room tells Django which rows a person may see in its admin: the role decides, nothing else."""

from typing import Any

from django.contrib.auth.backends import ModelBackend

from access.grants import Operation
from access.service import user_may

_ADMINISTRATORS_ONLY = "access"


class RoleBackend(ModelBackend):
    """Passwords as Django checks them; `view` permissions by role, and no other permission for anybody.

    Rows of this app (who has which token, who tried to come in) are for administrators.
    """

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        app, _, action = perm.partition(".")
        operation = Operation.ADMINISTER if app == _ADMINISTRATORS_ONLY else Operation.VIEW
        return action.startswith("view_") and user_may(user_obj, operation)

    def has_module_perms(self, user_obj: Any, app_label: str) -> bool:
        return self.has_perm(user_obj, f"{app_label}.view_any")
