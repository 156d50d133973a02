"""This room tells Django that the verbs of consumer groups are an app, and workers what a rebalance is."""

from django.apps import AppConfig


class CoordinatorConfig(AppConfig):
    """The coordinator of consumer groups: it alone writes their rows."""

    name = "coordinator"
    verbose_name = "Group coordinator"

    def ready(self) -> None:
        """Name the function that computes a rebalance, and what a promotion lifts."""
        from coordinator import store
        from runtime import succession, work

        succession.register("groups", store.lift)
        work.register("rebalance", "coordinator.tasks:compute_target")
        work.register("group.request", "coordinator.tasks:find_offsets")
