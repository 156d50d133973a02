"""Adds members of classic groups, and what pages show of their assignments; who does not know them goes on."""

from typing import ClassVar

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models

# Each Sync writes the assignment of every member anew, which no index holds: the new row stays in its page.
ROOM_FOR_UPDATES = "ALTER TABLE classic_member SET (fillfactor = 50)"
ROOM_AS_BEFORE = "ALTER TABLE classic_member RESET (fillfactor)"


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0003_when_offsets_moved_and_phases_began")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="consumergroup",
            name="leader",
            field=models.TextField(
                blank=True, help_text="The member that assigns in a classic group.", null=True
            ),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="protocol_name",
            field=models.TextField(
                blank=True, help_text="The strategy that every member of a classic group supports.", null=True
            ),
        ),
        migrations.AddField(
            model_name="consumergroup",
            name="protocol_type",
            field=models.TextField(
                blank=True,
                db_default="",
                help_text="What a classic group's members say they are; consumer, connect.",
            ),
        ),
        migrations.CreateModel(
            name="ClassicMember",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("member_id", models.TextField(db_collation="C")),
                (
                    "group_instance_id",
                    models.TextField(
                        blank=True,
                        db_collation="C",
                        help_text="A static member's own name; its id may change.",
                        null=True,
                    ),
                ),
                ("client_id", models.TextField(blank=True, default="")),
                ("client_host", models.TextField(blank=True, default="")),
                ("session_timeout_ms", models.IntegerField()),
                (
                    "rebalance_timeout_ms",
                    models.IntegerField(help_text="How long a rebalance waits for it to join again."),
                ),
                (
                    "protocol_names",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        help_text="Strategies that it offers, best first.",
                        size=None,
                    ),
                ),
                (
                    "protocol_metadata",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BinaryField(),
                        help_text="What it says to each of its strategies.",
                        size=None,
                    ),
                ),
                ("assignment", models.BinaryField(default=b"", help_text="What the leader gave it.")),
                (
                    "node",
                    models.CharField(
                        blank=True, default="", help_text="Node of its last JoinGroup.", max_length=64
                    ),
                ),
                ("joined_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "group",
                    models.ForeignKey(
                        db_column="group_name",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="classic_members",
                        to="groups.consumergroup",
                    ),
                ),
            ],
            options={
                "db_table": "classic_member",
                "ordering": ("group", "member_id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("group", "member_id"), name="classic_member_id_is_unique"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group_instance_id__isnull", False)),
                        fields=("group", "group_instance_id"),
                        name="classic_member_instance_is_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("member_id__gt", "")), name="classic_member_has_an_id"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("session_timeout_ms__gt", 0)),
                        name="classic_member_session_is_positive",
                    ),
                    models.CheckConstraint(
                        condition=django.db.models.lookups.Exact(
                            models.Func(
                                models.F("protocol_names"),
                                function="cardinality",
                                output_field=models.IntegerField(),
                            ),
                            models.Func(
                                models.F("protocol_metadata"),
                                function="cardinality",
                                output_field=models.IntegerField(),
                            ),
                        ),
                        name="classic_member_says_something_to_each_strategy",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ObservedAssignment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("member_id", models.TextField(db_collation="C")),
                ("topic_name", models.CharField(db_collation="C", max_length=249)),
                (
                    "partitions",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
                (
                    "group",
                    models.ForeignKey(
                        db_column="group_name",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="observed_assignments",
                        to="groups.consumergroup",
                    ),
                ),
            ],
            options={
                "db_table": "observed_assignment",
                "ordering": ("group", "member_id", "topic_name"),
                "indexes": [models.Index(fields=["group", "member_id"], name="observed_assignment_member")],
            },
        ),
        migrations.RunSQL(ROOM_FOR_UPDATES, ROOM_AS_BEFORE),
    ]
