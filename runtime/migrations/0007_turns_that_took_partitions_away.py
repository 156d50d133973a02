"""Lets the turns that deleted topics or removed partitions be found, among millions of others."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0006_turns_that_somebody_asked_for")]
    operations: ClassVar = [
        migrations.AddIndex(
            "journalentry",
            models.Index(
                fields=["-id"],
                name="journal_removals",
                condition=Q(lane="controller", summary__has_any_keys=["topics_deleted", "topics_shrunk"]),
            ),
        ),
    ]
