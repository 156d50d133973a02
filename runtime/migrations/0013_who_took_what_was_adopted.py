"""Lets it be found who took the last work, of a week of it: pages ask whenever they look at the cluster.

Of adopted work alone, so that each item is written there once, behind its way. Writers go on meanwhile.
"""

from typing import ClassVar, Final

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

TAKEN: Final = models.Index(
    name="work_item_taken",
    fields=["claimed_at", "claimed_by"],
    condition=Q(state="adopted", claimed_at__isnull=False),
)


class Migration(migrations.Migration):
    atomic = False
    dependencies: ClassVar = [("runtime", "0012_requests_newest_first")]
    operations: ClassVar = [
        migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {TAKEN.name}", migrations.RunSQL.noop),
        AddIndexConcurrently("workitem", TAKEN),
    ]
