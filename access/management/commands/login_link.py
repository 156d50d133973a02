"""This room is the command that prints the address of a one-time sign-in."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, DataError
from django.urls import reverse

from access.grants import Role
from access.service import BadName, LockedOut, make_login_link
from runtime.ports import is_unable_behind

ON_CALL = "on-call"
"""Whom the links of a stack sign in."""


class Command(BaseCommand):
    help = "Print the address of a link that signs in once within 10 minutes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", default=ON_CALL, help="the person who is signed in; made if new")
        parser.add_argument(
            "--role", choices=["viewer", "operator", "admin"], default="operator", help="of a new person"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["user"]
        try:
            secret, is_new = make_login_link(name, Role(options["role"]))
        except LockedOut as error:
            raise CommandError(f"{name} is locked out; `manage.py lock_out {name} --undo` ends it") from error
        except BadName as error:
            raise CommandError(str(error)) from error
        except DataError:
            # It cannot keep what it was given: it answered, and `manage.py` says what.
            raise
        except DatabaseError as error:
            # Its first line: the rest is the driver's.
            reason = str(error).partition("\n")[0]
            if is_unable_behind(error):
                raise CommandError(f"The database writes nothing now: {reason}.") from error
            raise CommandError(
                f"The database does not answer: {reason}. Is a stack running in MUSTER_HOME (`make status`)?"
                " For another database set DATABASE_URL."
            ) from error
        if is_new and name != ON_CALL:
            self.stderr.write(f"{name} was not known: made now, as {options['role']}.")
        # By this app's own addresses: all of them would fill `make up` with pages and REST.
        path = reverse("login-once", urlconf="access.urls", args=[secret])
        self.stdout.write(settings.MUSTER_WEB_URL + path)
