"""This room is the command `muster`: every group of commands under its name."""

import typer

from muster.cli import (
    broker_commands,
    config_commands,
    context_commands,
    doctor,
    group_commands,
    loss_commands,
    move_commands,
    plan_commands,
    quota_commands,
    record_commands,
    status_commands,
    topic_commands,
)
from muster.cli.commands import before_commands

app = typer.Typer(
    name="muster",
    help="Look at a Muster cluster and operate it, over REST.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
before_commands(app)
status_commands.register(app)
doctor.register(app)
app.add_typer(group_commands.app, name="groups")
app.add_typer(topic_commands.app, name="topics")
app.add_typer(config_commands.app, name="configs")
app.add_typer(broker_commands.app, name="brokers")
app.add_typer(loss_commands.app, name="losses")
app.add_typer(move_commands.app, name="moves")
app.add_typer(plan_commands.app, name="plans")
app.add_typer(quota_commands.app, name="quotas")
record_commands.register(app)
app.add_typer(context_commands.app, name="context")
