"""Lets a turn of the controller be found by its metadata version, which rows of partitions name."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0004_nodes_have_numbers")]
    operations: ClassVar = [
        migrations.AddIndex(
            "journalentry",
            models.Index(
                Cast(KeyTextTransform("metadata_version", "summary"), models.BigIntegerField()),
                name="journal_by_metadata_version",
                condition=Q(lane="controller"),
            ),
        ),
    ]
