"""This room registers the controller with Django."""

from django.apps import AppConfig


class ControllerConfig(AppConfig):
    """Brokers, topics and partitions: their rows, and the lane that decides them (002)."""

    name = "controller"
    verbose_name = "Brokers, topics, partitions"
    default_auto_field = "django.db.models.BigAutoField"
