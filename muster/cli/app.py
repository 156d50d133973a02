"""This room is the command `muster`: every group of commands under its name."""

import typer

from muster.cli import context_commands, group_commands, status_commands, topic_commands

app = typer.Typer(
    name="muster",
    help="Look at a Muster cluster and operate it, over REST.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(context_commands.app, name="context")
app.add_typer(group_commands.app, name="groups")
app.add_typer(topic_commands.app, name="topics")
status_commands.register(app)
