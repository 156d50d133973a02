"""This room is Django's entry to the commands that run a whole stack on one machine."""

from django.apps import AppConfig


class StandaloneConfig(AppConfig):
    """Commands only: no tables."""

    name = "standalone"
