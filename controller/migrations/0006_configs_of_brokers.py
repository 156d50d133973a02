"""Adds what is set for brokers and for the whole cluster while they run."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0005_proofs_that_the_database_was_set_back")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="BrokerConfig",
            fields=[
                (
                    "broker_id",
                    models.IntegerField(primary_key=True, serialize=False, help_text="0: the whole cluster."),
                ),
                (
                    "configs",
                    models.JSONField(default=dict, blank=True, help_text="By the names that brokers use."),
                ),
                (
                    "metadata_version",
                    models.BigIntegerField(help_text="Of the turn that last changed this row."),
                ),
                ("changed_at", models.DateTimeField(db_default=Now())),
            ],
            options={"db_table": "broker_configs", "ordering": ("broker_id",)},
        ),
        migrations.AddConstraint(
            model_name="brokerconfig",
            constraint=models.CheckConstraint(
                name="broker_configs_are_of_a_broker_or_of_all",
                condition=Q(broker_id__gte=0, broker_id__lte=9_999),
            ),
        ),
    ]
