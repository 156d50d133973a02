"""This room leaves room beside each partition's row, so that a changed row stays on its page."""

from django.db import migrations

# An election changes every row of a broker at once. With full pages each new version needs a page and an
# entry in both indexes; with room on its own page it needs neither (HOT): 200 ms instead of 500 ms for 10,000.
ROOM = "ALTER TABLE partition SET (fillfactor = 45)"
FULL = "ALTER TABLE partition RESET (fillfactor)"


class Migration(migrations.Migration):
    dependencies = [("controller", "0001_brokers_topics_partitions")]

    operations = [migrations.RunSQL(ROOM, FULL)]
