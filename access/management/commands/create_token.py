"""This room is the command that gives a program a token and prints nothing but its text to stdout."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from access.grants import Role
from access.service import BadName, TokenNameTaken, bounds_of, create_token, is_locked_out
from muster.kernel.scopes import BadScope

MOST_DAYS = 36_500


class Command(BaseCommand):
    help = "Make an API token and print it; it is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=[role.value for role in Role], required=True)
        parser.add_argument("--replace", action="store_true", help="take back an older token of this name")
        parser.add_argument(
            "--expires-days", type=int, default=None, help="days until it ends; default: never"
        )

        parser.add_argument(
            "--topic", action="append", default=[], help="a topic, or a prefix with * behind; repeatable"
        )
        parser.add_argument(
            "--group", action="append", default=[], help="a group, or a prefix with * behind; repeatable"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["expires_days"]
        if days is not None and not 0 < days <= MOST_DAYS:
            raise CommandError(
                f"--expires-days must be from 1 to {MOST_DAYS}; without it a token stays good."
            )
        name = options["name"]
        bounds_before = bounds_of(name) if options["replace"] else {}
        try:
            text = create_token(
                name,
                Role(options["role"]),
                good_for=timedelta(days=days) if days else None,
                replace=options["replace"],
                topics=options["topic"],
                groups=options["group"],
            )
        except (BadScope, BadName) as error:
            raise CommandError(str(error)) from error
        except TokenNameTaken as error:
            if options["replace"]:
                raise CommandError(f"{error} is the name of Muster's own workers.") from error
            raise CommandError(f"A token named {error} exists. Use --replace to take it back.") from error
        bounds = {"topics": options["topic"], "groups": options["group"]}
        if bounds_before is None:
            self.stderr.write(f"No living token was named {name}: this one is new, and none was taken back.")
        if is_locked_out(name):
            self.stderr.write(f"{name} is locked out; `manage.py lock_out {name} --undo` ends it.")
        for what, names in (bounds_before or {}).items():
            if names and not bounds[what]:
                self.stderr.write(
                    f"The token that this one replaces was good for {what} {', '.join(names)} only; "
                    f"this one is good for all {what}, because no --{what[:-1]} was given."
                )
        self.stdout.write(text)
