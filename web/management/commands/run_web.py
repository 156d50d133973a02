"""This room is the command that runs the web process."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Serve pages, REST and live updates on MUSTER_WEB_LISTEN until SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        from web.serve import serve

        host, _, port = settings.MUSTER_WEB_LISTEN.rpartition(":")
        if not host or not port.isdigit():
            raise CommandError(f"MUSTER_WEB_LISTEN={settings.MUSTER_WEB_LISTEN!r} is not host:port.")

        def ready(bound: int) -> None:
            self.stdout.write(f"web ready http://{host}:{bound}")
            self.stdout.flush()

        asyncio.run(serve(host.strip("[]"), int(port), ready))
