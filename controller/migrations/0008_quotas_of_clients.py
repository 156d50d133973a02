"""Adds quotas of clients: what a user, a client id, or both together may send and fetch per broker."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions.datetime import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0007_plans")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="ClientQuota",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("user_name", models.CharField(blank=True, max_length=249, null=True)),
                ("client_id", models.CharField(blank=True, max_length=249, null=True)),
                (
                    "producer_byte_rate",
                    models.BigIntegerField(blank=True, help_text="Bytes per second.", null=True),
                ),
                (
                    "consumer_byte_rate",
                    models.BigIntegerField(blank=True, help_text="Bytes per second.", null=True),
                ),
                (
                    "version",
                    models.BigIntegerField(help_text="metadata_version of the turn that last changed it."),
                ),
                ("changed_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "db_table": "client_quota",
                "ordering": ("user_name", "client_id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user_name", "client_id"),
                        name="client_quota_is_unique",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(user_name__isnull=False) | models.Q(client_id__isnull=False),
                        name="client_quota_is_somebodys",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(producer_byte_rate__gte=1) | models.Q(consumer_byte_rate__gte=1),
                        name="client_quota_has_a_rate",
                    ),
                ],
            },
        ),
    ]
