"""Adds plans of many moves, rates of moves, and sizes of logs."""

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controller", "0006_configs_of_brokers"),
    ]

    operations = [
        migrations.AddField(
            model_name="partition",
            name="throttle",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                help_text="Bytes a second and broker, of what is being added; 0: any.",
            ),
        ),
        migrations.AddField(
            model_name="partitionprogress",
            name="size_bytes",
            field=models.BigIntegerField(help_text="Of the leader's log; NULL: it did not say.", null=True),
        ),
        migrations.AddField(
            model_name="reassignment",
            name="plan_id",
            field=models.UUIDField(
                blank=True, help_text="Of the plan that asked for it; NULL: none.", null=True
            ),
        ),
        migrations.AddField(
            model_name="reassignment",
            name="plan_step",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="reassignment",
            name="throttle",
            field=models.BigIntegerField(db_default=0, default=0, help_text="Bytes a second; 0: any."),
        ),
        migrations.CreateModel(
            name="Plan",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=20)),
                (
                    "options",
                    models.JSONField(help_text="What it is to do: muster.messages.link.plans.PlanOptions."),
                ),
                ("phase", models.CharField(max_length=10)),
                (
                    "throttle",
                    models.BigIntegerField(default=0, help_text="Bytes a second and broker; 0: any."),
                ),
                ("at_a_time", models.IntegerField(help_text="How many of its moves may be active.")),
                ("step_count", models.IntegerField(default=0)),
                (
                    "cost",
                    models.JSONField(default=dict, help_text="As computed: controller.core.proposals.Cost."),
                ),
                ("proposed_by", models.CharField(blank=True, default="", max_length=249)),
                ("reason", models.TextField(blank=True, default="", help_text="What who proposed it said.")),
                (
                    "changed_by",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="Who approved, ran, paused or ended it.",
                        max_length=249,
                    ),
                ),
                (
                    "why",
                    models.TextField(blank=True, default="", help_text="Why it was changed last, or failed."),
                ),
                (
                    "version",
                    models.BigIntegerField(
                        help_text="metadata_version of the turn that last changed this row."
                    ),
                ),
                (
                    "proposed_version",
                    models.BigIntegerField(help_text="metadata_version of the turn that began it."),
                ),
                ("proposed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("approved_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "plan",
                "ordering": ("-proposed_version", "id"),
                "indexes": [models.Index(fields=["-proposed_version", "id"], name="plan_by_turn")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "phase__in",
                                (
                                    "Computing",
                                    "Draft",
                                    "Approved",
                                    "Running",
                                    "Paused",
                                    "Done",
                                    "Cancelled",
                                    "Failed",
                                ),
                            )
                        ),
                        name="plan_phase_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("at_a_time__gte", 1), ("step_count__gte", 0), ("throttle__gte", 0)
                        ),
                        name="plan_counts_upwards",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PlanStep",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField(help_text="Its place in the plan, from 0.")),
                ("topic_id", models.UUIDField(help_text="Of the topic; it may be deleted by now.")),
                ("topic_name", models.CharField(max_length=249)),
                ("partition", models.IntegerField()),
                (
                    "reviewed_version",
                    models.BigIntegerField(help_text="Of the partition's row when it was computed."),
                ),
                (
                    "origin",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(), help_text="Replicas then.", size=None
                    ),
                ),
                (
                    "target",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(), help_text="Replicas when it is done.", size=None
                    ),
                ),
                (
                    "size_bytes",
                    models.BigIntegerField(help_text="Of the leader's log then; NULL: unknown.", null=True),
                ),
                ("state", models.CharField(max_length=10)),
                (
                    "why",
                    models.TextField(blank=True, default="", help_text="Why it was skipped, or ended early."),
                ),
                (
                    "plan",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="controller.plan",
                    ),
                ),
            ],
            options={
                "db_table": "plan_step",
                "ordering": ("plan", "number"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ("Waiting", "Asked"))),
                        fields=["plan", "number"],
                        name="plan_step_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("plan", "number"), name="plan_step_is_unique"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ("Waiting", "Asked", "Done", "Skipped", "Cancelled", "Failed"))
                        ),
                        name="plan_step_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("origin__len__gte", 1), ("target__len__gte", 1)),
                        name="plan_step_has_replicas",
                    ),
                ],
            },
        ),
    ]
