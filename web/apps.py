"""This room registers the app `web`: the process that serves pages, REST and live updates."""

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created


class WebConfig(AppConfig):
    name = "web"
    verbose_name = "Pages"

    def ready(self) -> None:
        from runtime import database_clock
        from web import servers, silence

        if settings.PROCESS_ROLE in {"node", "worker"}:
            # A node hears it with its tokens; a worker connects for each task, and tells nobody an age.
            return
        connection_created.connect(database_clock.hear, dispatch_uid="database_clock")
        connection_created.connect(servers.prefer, dispatch_uid="servers")
        # Behind the first, which asks: a PgBouncer lets in also while there is no database behind it.
        connection_created.connect(silence.over, dispatch_uid="silence")
