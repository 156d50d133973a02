"""This room is the command that takes a token back."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from access.service import revoke_token


class Command(BaseCommand):
    help = "Take back the living token of this name; nodes refuse it within 10 s."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        if not revoke_token(options["name"]):
            raise CommandError(f"No living token is named {options['name']}.")
        self.stdout.write(f"Token {options['name']} is taken back.")
