"""This room is the command that runs the web process."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from kafkaserver.addresses import CannotListenError, refuse_what_cannot_be_listened_on
from kafkaserver.ending import end_without_threads
from runtime.schema import why_not_to_begin


class Command(BaseCommand):
    help = "Serve pages, REST and live updates on MUSTER_WEB_LISTEN until SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        from web.serve import serve

        host, _, port = settings.MUSTER_WEB_LISTEN.rpartition(":")
        try:
            refuse_what_cannot_be_listened_on("MUSTER_WEB_LISTEN", host.strip("[]"), int(port))
        except CannotListenError as error:
            raise CommandError(str(error)) from error
        # A database that does not answer is told by pages, and looked at by /readyz.
        if unknown := why_not_to_begin(connection):
            raise CommandError(unknown)

        def ready(bound: int) -> None:
            self.stdout.write(f"web ready http://{host}:{bound}")
            self.stdout.flush()

        with asyncio.Runner() as runner:
            runner.run(serve(host.strip("[]"), int(port), ready))
            end_without_threads()
