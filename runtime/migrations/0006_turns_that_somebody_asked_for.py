"""Lets the turns in which somebody asked for something be read newest first, among millions of others."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0005_turns_of_the_controller_by_version")]
    operations: ClassVar = [
        migrations.AddIndex(
            "journalentry",
            models.Index(
                fields=["-id"],
                name="journal_asked",
                condition=Q(summary__has_any_keys=["asked", "principal"]),
            ),
        ),
    ]
