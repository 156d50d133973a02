"""This room is the command that deletes a stopped stack's folder and data."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from standalone.stack import AlreadyRunning, remove


class Command(BaseCommand):
    help = "Delete MUSTER_HOME and the embedded PostgreSQL's data, unless a stack runs there."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            remove(Path(settings.MUSTER_HOME))
        except AlreadyRunning as error:
            raise CommandError(str(error)) from error
