"""This room registers the app `web`: the process that serves pages, REST and live updates."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class WebConfig(AppConfig):
    name = "web"
    verbose_name = "Pages"

    def ready(self) -> None:
        from runtime import database_clock

        connection_created.connect(database_clock.hear, dispatch_uid="database_clock")
