"""This room is Django's entry to the node process."""

from django.apps import AppConfig


class NodeConfig(AppConfig):
    """The process that speaks with members and brokers; it has no tables."""

    name = "node"
    verbose_name = "node"
