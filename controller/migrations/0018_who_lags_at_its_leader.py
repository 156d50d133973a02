"""Adds where leaders refuse acks=all as replicas lag, as they say: by the rows nothing is wrong there."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0017_which_version_a_broker_runs")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="LagNote",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "broker_id",
                    models.IntegerField(help_text="Who said it; it counts while that one leads."),
                ),
                ("topic_id", models.UUIDField(help_text="Of the topic; it may be deleted by now.")),
                ("partition", models.IntegerField()),
                (
                    "lagging",
                    ArrayField(models.IntegerField(), help_text="Members of the ISR that have a session."),
                ),
                ("since", models.DateTimeField()),
            ],
            options={"db_table": "lag_note", "ordering": ("broker_id", "topic_id", "partition")},
        ),
        migrations.AddConstraint(
            model_name="lagnote",
            constraint=models.UniqueConstraint(
                name="lag_note_is_unique", fields=("topic_id", "partition", "broker_id")
            ),
        ),
        migrations.AddConstraint(
            model_name="lagnote",
            constraint=models.CheckConstraint(
                name="lag_note_names_somebody", condition=Q(lagging__len__gte=1)
            ),
        ),
    ]
