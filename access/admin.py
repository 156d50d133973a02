"""This room shows access in Django's admin, to administrators only, and never what proves a token."""

from django.contrib import admin
from django.contrib.auth.models import Group, User

from access.models import AccessEvent, ApiToken, Principal
from runtime.admin import ReadOnlyAdmin

# Users are made by `manage.py create_user`; a second way to change them would go past the audit.
admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(Principal)
class PrincipalAdmin(ReadOnlyAdmin):
    list_display = ("name", "role", "user", "disabled", "created_at")
    list_filter = ("role", "disabled")
    search_fields = ("name",)
    list_select_related = ("user",)
    exclude = ("user",)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "prefix",
        "role",
        "principal",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    list_filter = ("role", "revoked_at")
    search_fields = ("name", "prefix")
    list_select_related = ("principal",)
    exclude = ("digest", "scram")


@admin.register(AccessEvent)
class AccessEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "action", "name", "address", "allowed", "detail")
    list_filter = ("action", "allowed")
    search_fields = ("name", "address")
    date_hierarchy = "at"
