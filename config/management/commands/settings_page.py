"""This room is the command that prints the page of all settings."""

from typing import Any

from django.core.management.base import BaseCommand

from config.settings_page import page


class Command(BaseCommand):
    help = "Print docs/settings.md."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(page(), ending="")
