"""This room is Django's entry to the configuration; it registers the system checks."""

from django.apps import AppConfig


class ConfigurationConfig(AppConfig):
    """The settings themselves, as an app, so that their checks run with everybody's."""

    name = "config"
    verbose_name = "configuration"

    def ready(self) -> None:
        """Register the checks, and make our Celery app the one that tasks are published by."""
        from config import celery, checks  # noqa: F401
