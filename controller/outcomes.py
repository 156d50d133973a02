"""This room words what became of a request to the controller, for pages and REST alike."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from controller.asked_about import Verdict, entity_name
from controller.asking import Request
from controller.core.topics import NOBODY_IS_LIVE
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import BrokerResult
from muster.messages.link.configs import AlterConfigs, ConfigResults, ResourceType
from muster.messages.link.from_broker import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    RemovePartitions,
    Wish,
)
from muster.messages.link.losses import AcknowledgeLosses, LossResults
from muster.messages.link.plans import PlanAnswer
from muster.messages.link.quotas import AlterClientQuotas, QuotaResults
from muster.messages.link.to_broker import (
    CreateTopicsAnswer,
    ElectionResults,
    ReassignmentResults,
    TopicResults,
    WishAnswer,
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one topic, partition, broker or plan; `kind` says which it is."""

    kind: str
    name: str
    partition: int | None = None
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    topic_id: UUID | None = None

    @property
    def refused(self) -> bool:
        """An election that nobody needs is no refusal: all is as it was asked to be."""
        return self.error not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)

    @property
    def label(self) -> str:
        """`flights`, `flights-5`, `broker 3`."""
        return self.name if self.partition is None else f"{self.name}-{self.partition}"

    @property
    def words(self) -> str:
        """What the controller said, as a sentence, and what to do about it."""
        said = self.text.removesuffix(".") or self.error.name
        if self.error is not ErrorCode.INVALID_CONFIG:
            # That begins with the name of a config, or with what was to be its value.
            said = said[:1].upper() + said[1:]
        advice = ADVICE.get(self.error, "")
        if self.kind == "partition" and self.error is ErrorCode.INVALID_REPLICATION_FACTOR:
            advice = ""  # A move says itself how many replicas there are to be.
        elif self.text == NOBODY_IS_LIVE:
            advice = "Bring one back, or uncordon one that is live."
        return f"{said}. {advice}".rstrip()


ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or delete that topic first.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Choose another name; . and _ count as the same letter.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Ask for fewer replicas, enroll more brokers, or uncordon one.",
    ErrorCode.INVALID_PARTITIONS: "Ask for more partitions than there are.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "Name different brokers that are registered, at least one of them"
    " live.",
    ErrorCode.INVALID_CONFIG: "`muster configs list --all` with --topic, --broker or --cluster"
    " lists what there is and what each takes.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Look at what there is now: it may have been deleted.",
    ErrorCode.UNKNOWN_TOPIC_ID: "Look at what there is now: it may have been deleted.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Set delete.topic.enable to true for the cluster first.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "There is nothing to cancel: it may have ended.",
    ErrorCode.INVALID_UPDATE_VERSION: "Nothing was changed. Look at it as it is now, then ask again.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "Bring that broker back, and wait until it is in sync.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Bring one of its in-sync replicas back.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "Ask again in a moment; if it stays so, the log of the controller's node"
    " says why.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "Look at the list of brokers.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Let them read on and commit, or force it: what they have not read"
    " is lost.",
    ErrorCode.UNSUPPORTED_VERSION: "Upgrade that broker, or wait until it has linked.",
}
"""What whoever asked may do about it, where the controller's own words do not say."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A request's verdict and what became of each thing that it names."""

    verdict: Verdict
    results: tuple[Result, ...] = ()
    text: str = ""
    goes_on: bool = False
    """What was accepted is carried out after the answer."""

    @property
    def done_word(self) -> str:
        """What is to be said of what was not refused: a move goes on behind its answer."""
        if self.goes_on:
            return "asked for"
        return "would be done" if self.verdict is Verdict.WOULD_BE_DONE else "done"

    @property
    def refusals(self) -> list[Result]:
        """What was not carried out, in the order of the request."""
        return [one for one in self.results if one.refused]


def kind_of(wish: Wish) -> str:
    """The wish's name, which is Kafka's where Kafka has one."""
    return type(wish).__name__


_TITLES: Final = {
    "CreateTopics": "Create topics",
    "CreatePartitions": "Add partitions",
    "RemovePartitions": "Remove partitions",
    "DeleteTopics": "Delete topics",
    "AlterConfigs": "Change configs",
    "AlterReassignments": "Move partitions",
    "ElectLeaders": "Elect leaders",
    "AlterClientQuotas": "Change quotas",
    "ProposePlan": "Propose a plan",
    "ApprovePlan": "Approve the plan",
    "RunPlan": "Run the plan",
    "PausePlan": "Pause the plan",
    "CancelPlan": "Cancel the plan",
    "ThrottlePlan": "Change the plan's rate",
    "AcknowledgeLosses": "Acknowledge what elections lost",
    "CordonBroker": "Cordon the broker, or place replicas on it again",
    "UnregisterBroker": "Take a broker out of the cluster",
}


KINDS: Final = tuple(_TITLES)


def title_of(kind: str) -> str:
    """What people call a wish of this kind; one of groups is called by its name."""
    return _TITLES.get(kind, kind.replace("_", " "))


def of(request: Request) -> Outcome:
    """What became of it so far."""
    if request.failed:
        return Outcome(Verdict.FAILED, text=request.failed)
    if request.answer is None:
        return Outcome(Verdict.WAITING)
    results = _results(request.wish, request.answer)
    refused = [one for one in results if one.refused]
    if refused:
        verdict = Verdict.REFUSED if len(refused) == len(results) else Verdict.PARTLY_DONE
    else:
        verdict = Verdict.WOULD_BE_DONE if is_trial(request.wish) else Verdict.DONE
    moves = isinstance(request.wish, AlterReassignments) and any(
        one.replicas for one in request.wish.partitions
    )
    return Outcome(verdict, results, goes_on=moves)


def topics_of(wish: Wish) -> frozenset[str] | None:
    """The topics that the wish is about; None: it may be about any, or about the whole cluster."""
    match wish:
        case CreateTopics() | DeleteTopics() | CreatePartitions():
            names = {one.name for one in wish.topics}
        case RemovePartitions():
            names = {wish.topic}
        case AlterReassignments():
            names = {one.topic for one in wish.partitions}
        case ElectLeaders(partitions=[*named]):
            names = {topic for topic, _ in named}
        case AlterConfigs() if all(one.type == ResourceType.TOPIC for one in wish.resources):
            names = {one.name for one in wish.resources}
        case AcknowledgeLosses():
            names = {one.topic for one in wish.losses}
        case _:
            return None
    # Kafka's clients may name a topic by its id, which says nothing when it is gone.
    return frozenset(names) if "" not in names else None


def is_trial(wish: Wish) -> bool:
    """Whether it is only to be judged."""
    return isinstance(
        wish, CreateTopics | CreatePartitions | RemovePartitions | AlterConfigs | AlterClientQuotas
    ) and (wish.validate_only)


def _results(wish: Wish, answer: WishAnswer) -> tuple[Result, ...]:
    match answer:
        case CreateTopicsAnswer():
            return tuple(Result("topic", t.name, None, t.error, t.text, t.topic_id) for t in answer.topics)
        case TopicResults():
            return tuple(
                Result("topic", t.name or str(t.topic_id), None, t.error, t.text, t.topic_id)
                for t in answer.topics
            )
        case ReassignmentResults():
            return tuple(Result("partition", r.topic, r.partition, r.error, r.text) for r in answer.results)
        case ElectionResults():
            named = isinstance(wish, ElectLeaders) and wish.partitions is not None
            # Of all partitions only those are told that needed one.
            return tuple(
                Result("partition", r.topic, r.partition, r.error, r.text)
                for r in answer.results
                if named or r.error is not ErrorCode.ELECTION_NOT_NEEDED
            )
        case ConfigResults():
            return tuple(_configured(r.type, r.name, r.error, r.text) for r in answer.results)
        case PlanAnswer():
            return (Result("plan", str(answer.plan_id or ""), None, answer.error, answer.text),)
        case LossResults():
            return tuple(Result("partition", r.topic, r.partition, r.error, r.text) for r in answer.results)
        case QuotaResults():
            return tuple(
                Result("quota", entity_name(r.entity), None, r.error, r.text) for r in answer.results
            )
        case BrokerResult():
            return (Result("broker", f"broker {answer.broker_id}", None, answer.error, answer.text),)
        case _:
            return ()


def _configured(resource: int, name: str, error: ErrorCode, text: str) -> Result:
    if resource == ResourceType.TOPIC:
        return Result("topic", name, None, error, text)
    return Result("broker" if name else "cluster", name, None, error, text)
