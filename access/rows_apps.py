"""This room registers Django's admin on our own site."""

from django.contrib.admin.apps import AdminConfig


class RowsConfig(AdminConfig):
    """Named in INSTALLED_APPS instead of `django.contrib.admin`."""

    default = False
    default_site = "access.rows_site.RowsSite"
