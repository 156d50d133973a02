"""This room is Django's entry to the commands that run a whole stack on one machine."""

from django.apps import AppConfig


class StandaloneConfig(AppConfig):
    """Commands, and the work item by which they see that workers work; no tables."""

    name = "standalone"

    def ready(self) -> None:
        """Tell workers about the probe."""
        from runtime import work

        work.register("standalone.probe", "standalone.probe:answer")
