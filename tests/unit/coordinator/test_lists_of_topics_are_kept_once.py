"""Members who subscribe alike share one list of topics, and strangers' lists are not hoarded."""

from coordinator.subscription_lists import KEPT_TOPICS, SubscriptionLists
from muster.messages.member import TopicCount


def test_the_second_who_subscribes_alike_gets_the_list_of_the_first() -> None:
    lists = SubscriptionLists()
    anns = lists.same((TopicCount("orders"), TopicCount("clicks")))
    assert lists.same((TopicCount("orders"), TopicCount("clicks"))) is anns
    assert lists.same((TopicCount("clicks"), TopicCount("orders"))) is not anns


def test_beyond_the_bound_lists_are_forgotten() -> None:
    lists = SubscriptionLists()
    anns = lists.same((TopicCount("orders"),))
    lists.same(tuple(TopicCount(f"topic-{number}") for number in range(KEPT_TOPICS)))
    assert lists.same((TopicCount("orders"),)) is not anns
