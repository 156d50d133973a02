"""Lets the audit of access be read newest first, and what is old be forgotten. Writers go on meanwhile."""

from typing import ClassVar, Final

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

BY_TIME: Final = models.Index(name="access_event_by_time", fields=["-at", "-id"])


class Migration(migrations.Migration):
    atomic = False
    dependencies: ClassVar = [("access", "0003_times_are_the_databases")]
    operations: ClassVar = [
        migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {BY_TIME.name}", migrations.RunSQL.noop),
        AddIndexConcurrently("accessevent", BY_TIME),
    ]
