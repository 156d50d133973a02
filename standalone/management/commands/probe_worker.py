"""This room is the command that sees whether a worker does what is offered."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from standalone.probe import NoWorker, probe


class Command(BaseCommand):
    help = "Send one work item through a Celery worker; fails if none does it within 90 s."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            probe(settings.DATABASE_DIRECT_URL)
        except NoWorker as error:
            raise CommandError(str(error)) from error
