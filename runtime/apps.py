"""This room is Django's entry to the heart."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    """Turns, lanes, leases, wake-ups, the journal and work due."""

    name = "runtime"
    verbose_name = "runtime"
    default_auto_field = "django.db.models.BigAutoField"
