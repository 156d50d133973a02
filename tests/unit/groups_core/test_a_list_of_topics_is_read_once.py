"""Whatever a member subscribes to, one look says whether it reads a topic, and with how many streams."""

from hypothesis import given
from hypothesis import strategies as st

from groups.core.subscriptions import wanted
from muster.messages.member import TopicCount

entries = st.builds(TopicCount, st.sampled_from("abcdef"), st.integers(1, 9), st.booleans())


@given(st.lists(entries, max_size=12).map(tuple))
def test_a_topic_has_the_streams_of_the_first_entry_that_names_it(
    subscription: tuple[TopicCount, ...],
) -> None:
    found = wanted(subscription)
    for topic in "abcdef":
        naming = [entry.threads for entry in subscription if entry.topic == topic and not entry.is_pattern]
        assert found.threads.get(topic) == (naming[0] if naming else None)
    assert found.patterns == tuple(entry for entry in subscription if entry.is_pattern)
    assert found.threads_by_pattern == max((entry.threads for entry in found.patterns), default=1)


def test_a_long_list_is_read_once_and_another_one_in_its_place_anew() -> None:
    for number in range(300):
        long = tuple(TopicCount(f"orders-{number}-{index}") for index in range(1_000))
        assert wanted(long) is wanted(long)
        assert next(iter(wanted(long).threads)) == f"orders-{number}-0"
