"""Adds what tells members with the same list of topics, so that it is read once for all of them."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("groups", "0008_for_whom_a_rebalance_waits"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="groupmember",
            name="subscription_digest",
            field=models.BinaryField(
                db_default=b"",
                default=b"",
                help_text="SHA-256 of the subscription as it was written; empty: like nobody else's.",
                max_length=32,
            ),
        ),
    ]
