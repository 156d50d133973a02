"""This room registers the controller with Django."""

from django.apps import AppConfig


class ControllerConfig(AppConfig):
    """Brokers, topics and partitions: their rows, and the lane that decides them (002)."""

    name = "controller"
    verbose_name = "Brokers, topics, partitions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Name the functions that compute elections in bulk and plans, and what a promotion lifts."""
        from controller import planning, store
        from controller.core.plans import COMPUTE_PLAN
        from controller.core.proposing import Task
        from controller.tasks import FUNCTION
        from runtime import succession, work

        succession.register("brokers and partitions", store.lift, store.lacking)
        for task in Task:
            work.register(str(task), FUNCTION)
        work.register(COMPUTE_PLAN, planning.FUNCTION)
