"""This room makes Django's admin a window: whoever may view sees the rows, nobody changes them there."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from access.grants import Operation
from access.service import user_may

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # Django's own class takes no type argument at run time
    ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """A ModelAdmin without add, change, delete and actions: every table has one writer elsewhere."""

    operation = Operation.VIEW
    actions = None
    list_per_page = 100
    # An exact count of ten million journal rows is not worth its seconds.
    show_full_result_count = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return user_may(request.user, self.operation)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return user_may(request.user, self.operation)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
