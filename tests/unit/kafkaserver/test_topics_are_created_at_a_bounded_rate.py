"""A bucket of tokens bounds how many topics are created through one door."""

from kafkaserver.admin.creation_quota import CreationQuota
from muster.kernel.instants import Instant


def test_a_burst_is_let_in_and_the_next_one_pays_for_it() -> None:
    quota = CreationQuota(Instant(0), burst=10, per_second=2)
    assert quota.take(8, Instant(0)) == 0
    assert quota.take(8, Instant(0)) == 0
    assert quota.take(1, Instant(0)) == 3_001
    assert quota.take(1, Instant(2_900)) > 0
    assert quota.take(1, Instant(3_100)) == 0


def test_tokens_that_nobody_uses_do_not_add_up_beyond_the_burst() -> None:
    quota = CreationQuota(Instant(0), burst=10, per_second=2)
    assert quota.take(11, Instant(1_000_000)) == 0
    assert quota.take(1, Instant(1_000_000)) == 501
