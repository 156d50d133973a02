"""Whatever REST offers, the command line offers: each operation has its command, or a reason why not."""

import json
import re
from collections.abc import Iterator

import typer
from typer.main import get_command

from muster.cli.app import app
from muster.cli.failures import ExitCode
from tests.tidy.sources import ROOT

COMMANDS = {
    "list_brokers": "brokers list",
    "read_a_broker": "brokers show",
    "cordon_or_uncordon_a_broker": "brokers cordon",
    "unregister_a_broker": "brokers remove",
    "read_the_condition_of_a_broker": "brokers show",
    "read_the_configs_of_a_broker": "configs list",
    "change_the_configs_of_a_broker": "configs change",
    "read_the_configs_of_the_cluster": "configs list",
    "change_the_configs_of_the_cluster": "configs change",
    "read_the_configs_of_a_topic": "configs list",
    "change_the_configs_of_a_topic": "configs change",
    "list_requests_to_the_controller": "requests list",
    "read_a_request_to_the_controller": "requests show",
    "list_groups": "groups list",
    "read_a_group": "groups show",
    "list_turns": "journal",
    "list_logs_in_trouble": "brokers logs",
    "list_members_of_a_group": "groups members",
    "list_committed_offsets": "groups offsets",
    "read_a_committed_offset": "groups offsets",
    "list_partitions": "topics partitions",
    "elect_leaders": "topics elect",
    "read_a_partition": "topics partitions",
    "list_processes": "processes",
    "list_plans": "plans list",
    "propose_a_plan": "plans propose",
    "read_a_plan": "plans show",
    "change_a_plan": "plans approve",
    "list_steps_of_a_plan": "plans steps",
    "list_findings": "health",
    "list_quotas_of_clients": "quotas list",
    "set_a_quota": "quotas set",
    "delete_a_quota": "quotas delete",
    "list_reassignments": "moves list",
    "move_partitions": "moves start",
    "read_a_reassignment": "moves show",
    "cancel_a_reassignment": "moves cancel",
    "list_rebalances_of_a_group": "groups history",
    "read_a_request": "requests show",
    "list_requests_about_a_group": "groups requests",
    "ask_something_of_a_group": "groups reset-offsets",
    "list_what_elections_lost": "losses list",
    "acknowledge_what_elections_lost": "losses acknowledge",
    "list_topics": "topics list",
    "create_a_topic": "topics create",
    "read_a_topic": "topics show",
    "delete_a_topic": "topics delete",
    "list_partitions_of_a_topic": "topics show",
    "list_partitions_as_of_a_moment": "topics as-of",
    "list_changes_of_a_partition": "topics history",
    "add_partitions_to_a_topic": "topics add-partitions",
    "remove_partitions_of_a_topic": "topics remove-partitions",
}
WITHOUT_ONE: dict[str, str] = {}
"""Operations that have no command, each with the reason."""

KINDS = {
    "GroupWishRequest": {
        "remove_member": "groups remove-member",
        "lift_quarantine": "groups lift-quarantine",
        "rebalance": "groups rebalance",
        "set_strategy": "groups set",
        "delete_group": "groups delete",
        "delete_offsets": "groups delete-offsets",
        "reset_offsets": "groups reset-offsets",
        "undo_reset": "groups undo-reset",
    },
    "PlanChangeRequest": {
        "approve": "plans approve",
        "run": "plans run",
        "pause": "plans pause",
        "cancel": "plans cancel",
        "throttle": "plans throttle",
    },
}
"""What one address is asked in several ways."""

DOCUMENT = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))


def commands(group: object = None, words: tuple[str, ...] = ()) -> Iterator[str]:
    """What can be typed after `muster`."""
    inner = getattr(get_command(app) if group is None else group, "commands", None)
    if inner is None:
        yield " ".join(words)
    else:
        for name, one in inner.items():
            yield from commands(one, (*words, name))


def test_every_operation_has_its_command() -> None:
    operations = {one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()}
    assert operations == COMMANDS.keys() | WITHOUT_ONE.keys()
    assert not COMMANDS.keys() & WITHOUT_ONE.keys()


def test_every_kind_of_a_request_has_its_command() -> None:
    for name, kinds in KINDS.items():
        mapping = DOCUMENT["components"]["schemas"][name]["discriminator"]["mapping"]
        assert mapping.keys() == kinds.keys()


def test_every_command_is_one_and_is_told() -> None:
    there = set(commands())
    named = {*COMMANDS.values(), *(one for kinds in KINDS.values() for one in kinds.values())}
    assert named <= there
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [one for one in sorted(there) if f"muster {one}" not in page] == []


def test_every_exit_code_is_told() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (\d+) \| ", page, flags=re.MULTILINE)
    assert [int(one) for one in told] == sorted(ExitCode)


def test_every_command_says_what_it_does() -> None:
    def silent(group: typer.core.TyperGroup) -> list[str]:
        return [name for name, one in group.commands.items() if not one.help]

    root = get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    assert silent(root) == []
    for one in root.commands.values():
        if isinstance(one, typer.core.TyperGroup):
            assert silent(one) == []
