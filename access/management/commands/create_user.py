"""This room is the command that makes a person who signs in with a password."""

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from access.grants import Role
from access.service import BadName, create_user, is_locked_out


class Command(BaseCommand):
    help = "Make a person with a role, or give an existing one a new role and password."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=["viewer", "operator", "admin"], required=True)
        parser.add_argument("--password-file", default=None, help="read the password from this file")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["password_file"]:
            try:
                password = Path(options["password_file"]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CommandError(f"The password cannot be read: {error}") from error
        else:
            password = _typed()
        try:
            validate_password(password)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        name, role = options["name"], options["role"]
        try:
            create_user(name, Role(role), password)
        except BadName as error:
            raise CommandError(str(error)) from error
        if is_locked_out(name):
            self.stderr.write(f"{name} is locked out; `manage.py lock_out {name} --undo` ends it.")
            self.stdout.write(f"{name} is {role} once that is over.")
        else:
            self.stdout.write(f"{name} may sign in as {role}.")


def _typed() -> str:
    """What somebody typed twice, or handed in by a pipe, who sees what it is."""
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Once more: ") != password:
            raise CommandError("These were two passwords; nothing was done.")
        return password
    # Python's getpass would warn that a pipe is echoed.
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
