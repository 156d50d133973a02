"""This room registers the app `access`: who may come in, and by which door."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "access"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"
