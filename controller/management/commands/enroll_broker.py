"""This room lets an operator enroll a broker: it gives the secret that the broker proves itself with."""

import secrets
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from controller import enrolment
from controller.models import FIRST_BROKER_ID, LAST_BROKER_ID

SECRET_BYTES = 32


class Command(BaseCommand):
    """`manage.py enroll_broker ID [--rotate]`: prints the secret, once; only its SHA-256 is stored."""

    help = "Enroll a broker and print its secret (MUSTER_BROKER_SECRET); it is shown only now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("broker_id", type=int, metavar="ID", help="1 to 9999")
        parser.add_argument(
            "--rotate",
            action="store_true",
            help="give a broker that is already enrolled a new secret; the old one is refused from now on",
        )

    def handle(self, *_: Any, broker_id: int, rotate: bool, **__: Any) -> None:
        if not FIRST_BROKER_ID <= broker_id <= LAST_BROKER_ID:
            raise CommandError(
                f"{broker_id} is no broker id; they go from {FIRST_BROKER_ID} to {LAST_BROKER_ID}."
            )
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with transaction.atomic():
            connection.ensure_connection()
            is_new = enrolment.enroll(connection.connection, broker_id, secret, rotate=False)
            enrolled = is_new or enrolment.enroll(connection.connection, broker_id, secret, rotate=rotate)
        if not enrolled:
            raise CommandError(f"Broker {broker_id} is already enrolled; --rotate gives it a new secret.")
        if is_new and rotate:
            self.stderr.write(f"Broker {broker_id} was not enrolled: it is now, and no secret was replaced.")
        self.stdout.write(secret)
