"""This room is the command that makes a database a current cluster before anything starts."""

import json
from argparse import ArgumentParser
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

TOKENS = {"operator": "stack-operator", "consumer": "stack-consumer"}


class Command(BaseCommand):
    help = "Migrate, initialise, enrol brokers, create tokens; prints the secrets as one line of JSON."
    # The checks of the database run after the migration, in each process that starts.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("brokers", nargs="*", type=int, metavar="ID", help="brokers to enrol")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        call_command("initialise_cluster", stdout=StringIO())
        # Every start gives new secrets: what lies in an old folder is worth nothing any more.
        brokers = {number: _printed("enroll_broker", number, rotate=True) for number in options["brokers"]}
        tokens = {
            role: _printed("create_token", name, role=role, replace=True) for role, name in TOKENS.items()
        }
        self.stdout.write(json.dumps({"brokers": brokers, "tokens": tokens}))


def _printed(command: str, *arguments: Any, **options: Any) -> str:
    """What a command that prints one secret prints; that there was none before is said to nobody here."""
    output = StringIO()
    call_command(command, *arguments, stdout=output, stderr=StringIO(), **options)
    return output.getvalue().strip()
