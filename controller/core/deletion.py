"""This room deletes topics: rows at once, logs by each broker that holds them (002 B; conformance 205 f.)."""

from collections import Counter

from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from controller.core.topics import Refused, check_version
from muster.kernel import config_levels
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_configs import DELETE_TOPIC_ENABLE
from muster.messages.link.from_broker import DeleteTopics, NamedTopic
from muster.messages.link.rows import TopicRow
from muster.messages.link.to_broker import TopicResult, TopicResults


def delete(draft: Draft, link: LinkId, frame: DeleteTopics) -> None:
    """Delete every topic that is there, also one whose brokers are dead; the answer leaves with this turn."""
    found = [_found(draft, named) for named in frame.topics]
    times = Counter(one.topic_id for one in found if isinstance(one, TopicRow))
    is_enabled = config_levels.flag(DELETE_TOPIC_ENABLE, {}, draft.levels())
    results = []
    for named, topic in zip(frame.topics, found, strict=True):
        try:
            if isinstance(topic, Refused):
                raise topic
            if times[topic.topic_id] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            if named.expected_id not in (None, topic.topic_id):
                text = f"topic {topic.name} was created anew and has the id {topic.topic_id} by now"
                raise Refused(ErrorCode.INVALID_UPDATE_VERSION, text)
            check_version(f"topic {topic.name}", topic.version, named.expected_version)
            if not is_enabled:
                text = f"config {DELETE_TOPIC_ENABLE} is false for this cluster"
                raise Refused(ErrorCode.TOPIC_DELETION_DISABLED, text)
            draft.fail_moves(topic.topic_id, 0, "the topic was deleted")
            draft.delete_topic(topic)
        except Refused as refused:
            results.append(
                TopicResult(name=named.name, topic_id=named.topic_id, error=refused.error, text=refused.text)
            )
        else:
            results.append(TopicResult(name=topic.name, topic_id=topic.topic_id))
    answer = TopicResults(correlation_id=frame.correlation_id, topics=tuple(results))
    draft.replies.append(Say(link, answer))


def _found(draft: Draft, named: NamedTopic) -> TopicRow | Refused:
    if bool(named.name) == (named.topic_id is not None):
        return Refused(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
    if named.topic_id is not None:
        by_id = draft.topic(named.topic_id)
        return by_id or Refused(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {named.topic_id}")
    like = draft.topic_named_like(named.name)
    if like is None or like.name != named.name:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {named.name}")
    return like


def not_written(frame: DeleteTopics, why: str) -> TopicResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was deleted"
    return TopicResults(
        correlation_id=frame.correlation_id,
        topics=tuple(
            TopicResult(name=one.name, topic_id=one.topic_id, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text)
            for one in frame.topics
        ),
    )
