"""This room is the command that prints the address of a one-time sign-in."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.urls import reverse

from access.grants import Role
from access.service import make_login_link


class Command(BaseCommand):
    help = "Print the address of a link that signs in once within 10 minutes."

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
                f"The database does not answer: {reason}. Is a stack running in MUSTER_HOME (`make status`)?"
                " For another database set DATABASE_URL."
            ) from error
        # By this app's own addresses: all of them would fill `make up` with pages and REST.
        path = reverse("login-once", urlconf="access.urls", args=[secret])
        self.stdout.write(settings.MUSTER_WEB_URL + path)
