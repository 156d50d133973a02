"""No table grows for ever unnoticed: each says who forgets its rows, or with what they go."""

from typing import Final

from django.apps import apps

from node.duties import _FORGET

FORGOTTEN_BY: Final = {
    "access_accessevent": "access.forgetting.forget_events",
    "access_apitoken": "access.forgetting.forget_tokens",
    "arrival": "controller.store_forgetting.forget_moves",
    "election_loss": "controller.store_forgetting.forget_losses",
    "journal": "runtime.journal.forget",
    "plan": "controller.store_forgetting.forget_plans",
    "plan_step": "controller.store_forgetting.forget_plans",
    "reassignment": "controller.store_forgetting.forget_moves",
    "work_item": "runtime.journal.forget_adopted_work",
}
"""Rows that tell of the past, and which duty of a node takes them away when they are old."""

GOES: Final = {
    "access_loginlink": "a day later, with the next link that is made",
    "access_principal": "never: as many as there are names of people and programs",
    "broker": "when it is unregistered",
    "broker_condition": "with its broker",
    "broker_configs": "never: one of each broker, and one of all",
    "classic_member": "when it leaves, with its group",
    "client_quota": "when an operator takes it away",
    "cluster": "never: one row",
    "committed_offset": "by age, with its topic, with its group",
    "consumer_group": "when it was empty for the retention of offsets",
    "django_session": "when it has ended, with the next who signs in",
    "group_member": "when it leaves, with its group",
    "group_quarantine": "when its time is over, with its group",
    "group_waiting": "when its rebalance ends",
    "lag_note": "when the broker says so, when its link is new, with its broker",
    "lease": "never: one of each lane",
    "log_note": "when the broker says so, when its link is new, with its broker",
    "node_identity": "never: a number is not given twice (design chapter 8a)",
    "node_session": "a week after its run ended (runtime.journal.forget_ended_runs)",
    "observed_assignment": "when its member leaves, with its group",
    "partition": "when it is removed, with its topic",
    "partition_ownership": "when it is released, with its group",
    "partition_progress": "with its partition",
    "refusal": "thirty days after it was last added to (runtime.refusals.forget)",
    "topic": "when it is deleted",
}
"""Rows that are what there is."""

DJANGOS: Final = {"django_admin_log", "django_content_type"}
"""Written by migrations, and by pages that write nothing here."""


def test_no_table_is_left_out() -> None:
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    ours = {table for table in tables if not table.startswith("auth_")} - DJANGOS
    assert ours == {*FORGOTTEN_BY, *GOES}
    assert not FORGOTTEN_BY.keys() & GOES.keys()


def test_who_forgets_is_a_duty_of_nodes() -> None:
    duties = {f"{duty.__module__}.{duty.__name__}" for duty in _FORGET}
    assert duties == set(FORGOTTEN_BY.values())
