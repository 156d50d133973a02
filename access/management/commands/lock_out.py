"""This room is the command that shuts every door to a person or a program, or opens them again."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from access.service import may_enter


class Command(BaseCommand):
    help = "Refuse somebody's sessions, passwords, links and tokens from now on; --undo lets them in again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--undo", action="store_true", help="let them in again")

    def handle(self, *args: Any, **options: Any) -> None:
        if not may_enter(options["name"], allowed=options["undo"]):
            raise CommandError(f"Nobody is named {options['name']}.")
        self.stdout.write(f"{options['name']} {'may come in again' if options['undo'] else 'is locked out'}.")
