"""Lets requests be read newest first, all of them and those about one group, among the other work of a week.

Writers go on meanwhile. One that is ended in the middle leaves an index that nobody may use: it is made anew.
"""

from typing import ClassVar, Final

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

OF_THE_CONTROLLER: Final = models.Index(
    name="work_item_controller_requests",
    fields=["-offered_at", "-id"],
    condition=Q(kind="controller.request"),
)
OF_A_GROUP: Final = models.Index(
    name="work_item_group_requests",
    fields=["key", "-offered_at", "-id"],
    condition=Q(kind="group.request"),
)


class Migration(migrations.Migration):
    atomic = False
    dependencies: ClassVar = [("runtime", "0011_where_the_rows_of_a_cluster_lie")]
    operations: ClassVar = [
        migrations.RunSQL(
            f"DROP INDEX CONCURRENTLY IF EXISTS {OF_THE_CONTROLLER.name}", migrations.RunSQL.noop
        ),
        AddIndexConcurrently("workitem", OF_THE_CONTROLLER),
        migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {OF_A_GROUP.name}", migrations.RunSQL.noop),
        AddIndexConcurrently("workitem", OF_A_GROUP),
    ]
