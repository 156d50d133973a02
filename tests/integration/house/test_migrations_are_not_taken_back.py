"""A database goes forwards only: what an older schema has no room for would be lost, as bounds of tokens."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.migrations.loader import MigrationLoader

from access.models import ApiToken


def bounds() -> list[str]:
    return list(ApiToken.objects.values_list("topics", flat=True).get())


@pytest.mark.usefixtures("fresh_database")
def test_the_bounds_of_a_token_outlive_whoever_wants_to_go_back() -> None:
    call_command("create_token", "orders-app", role="client", topic=["orders*"], stdout=StringIO())
    for target, undone in (("0001", "access.0002_scopes_and_scram_of_tokens"), ("zero", "access.0001")):
        with pytest.raises(CommandError, match=rf"There is no way back: .*{undone}.* would be undone"):
            call_command("migrate", "access", target, verbosity=0)
    assert bounds() == ["orders*"]


@pytest.mark.usefixtures("fresh_database")
def test_what_is_there_already_and_what_nobody_knows_is_left_to_django() -> None:
    call_command("migrate", verbosity=0)
    [(_, newest)] = MigrationLoader(None).graph.leaf_nodes("access")
    call_command("migrate", "access", newest, verbosity=0)
    for app, name in (("access", "0999"), ("nobody", "0001")):
        with pytest.raises(CommandError, match=r"Cannot find a migration|No installed app"):
            call_command("migrate", app, name, verbosity=0)
