"""Adds when a node's run was last heard: people are told since when lanes have no owner."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0002_quick_compression_of_large_documents")]
    operations: ClassVar = [
        migrations.AddField(
            "nodesession",
            "renewed_at",
            models.DateTimeField(null=True, help_text="When `renewals` rose last."),
        ),
    ]
