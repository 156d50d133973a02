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
from access.service import create_user


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
            password = getpass.getpass("Password: ")
            # Whoever hands it in by a pipe sees what it is.
            if sys.stdin.isatty() and getpass.getpass("Once more: ") != password:
                raise CommandError("These were two passwords; nothing was done.")
        try:
            validate_password(password)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        create_user(options["name"], Role(options["role"]), password)
        self.stdout.write(f"{options['name']} may sign in as {options['role']}.")
