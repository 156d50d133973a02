"""This room reads for whom the open rebalance of a group waits, as its owner noted it."""

from groups.models import ConsumerGroup, GroupWaiting


def waiting_of(group: ConsumerGroup) -> GroupWaiting | None:
    """What was noted since the group came into its present phase; None if nothing was, or nothing is open."""
    noted = GroupWaiting.objects.filter(group=group, phase=group.phase).first()
    if noted is None or noted.told_at < group.phase_entered_at:
        return None
    return noted
