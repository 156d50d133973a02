"""This room is the command that prints the path of a one-time sign-in."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.urls import reverse

from access.grants import Role
from access.service import make_login_link


class Command(BaseCommand):
    help = "Print the path of a link that signs in once within 10 minutes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", default="on-call", help="the person who is signed in; made if new")
        parser.add_argument(
            "--role", choices=["viewer", "operator", "admin"], default="operator", help="of a new person"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            secret = make_login_link(options["user"], Role(options["role"]))
        except DatabaseError as error:
            # Its first line: the rest is the driver's.
            reason = str(error).partition("\n")[0]
            raise CommandError(
                f"The database of DATABASE_URL does not answer: {reason}. Of a stack that `make up` runs, the"
                " address stands in stack.json of its MUSTER_HOME, and the stack prints a link itself."
            ) from error
        self.stdout.write(reverse("login-once", args=[secret]))
