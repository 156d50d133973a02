"""This room is the site of Django's admin: no door of its own, no passwords, only rows for who may view."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from access.grants import Operation
from access.service import user_may
from access.views import sign_out


class RowsSite(AdminSite):
    """Signing in, its bounds and its audit are one page's work; a second form would go past them."""

    site_header = "Muster: the rows"
    site_title = "Muster"
    index_title = "Read-only: every table has one writer, and it is not this page"

    def has_permission(self, request: HttpRequest) -> bool:
        """True for whoever's role may view."""
        return user_may(request.user, Operation.VIEW)

    @method_decorator([never_cache, login_not_required])
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Lead to the page that signs in; whoever is signed in and still sent here lacks the role."""
        if request.user.is_authenticated:
            raise PermissionDenied("The rows need a role that may view.")
        return redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index"))

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Sign out as the pages do, with a line in the audit."""
        return sign_out(request)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Passwords are given by `manage.py create_user`."""
        raise Http404("passwords are not changed here")

    def password_change_done(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """There is no such page."""
        raise Http404("passwords are not changed here")
