"""This room tells Django that the verbs of consumer groups are an app, and workers what a rebalance is."""

from django.apps import AppConfig


class CoordinatorConfig(AppConfig):
    """The coordinator of consumer groups: it alone writes their rows."""

    name = "coordinator"
    verbose_name = "Group coordinator"

    def ready(self) -> None:
        """Name the function that computes a rebalance."""
        from runtime import work

        work.register("rebalance", "coordinator.tasks:compute_target")
