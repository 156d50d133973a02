"""This room is what a consumer wishes for, and the frames in which it says so and who it is."""

from dataclasses import dataclass

from muster.messages.member import (
    AutoOffsetReset,
    CommitOffsetsRequest,
    LeaveRequest,
    RegisterConsumerRequest,
    StopFetcherRequest,
    StopFetcherResponse,
    TopicCount,
    TopicOffsets,
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the consumer states in RegisterConsumer; `token` is 32 random bytes as text, made once."""

    group_id: str
    consumer_id: str
    token: str
    topic_count: tuple[TopicCount, ...]
    session_timeout_ms: int
    auto_commit: bool = True
    auto_offset_reset: AutoOffsetReset = "latest"
    ephemeral: bool = False
    client_id: str = ""
    rack: str = ""
    stands_by: bool = False

    def in_a_frame(self, correlation_id: int, generation: int) -> RegisterConsumerRequest:
        """As they are said to the coordinator; `generation` is the highest that the member has seen."""
        return RegisterConsumerRequest(
            correlation_id=correlation_id,
            group_id=self.group_id,
            consumer_id=self.consumer_id,
            token=self.token,
            topic_count=self.topic_count,
            session_timeout_ms=self.session_timeout_ms,
            auto_commit=self.auto_commit,
            auto_offset_reset=self.auto_offset_reset,
            ephemeral=self.ephemeral,
            generation=generation,
            client_id=self.client_id,
            rack=self.rack,
            stands_by=self.stands_by,
        )

    def commit(self, correlation_id: int, offset_info: tuple[TopicOffsets, ...]) -> CommitOffsetsRequest:
        """What it says to commit these."""
        return CommitOffsetsRequest(
            correlation_id=correlation_id,
            consumer_id=self.consumer_id,
            offset_info=offset_info,
            client_id=self.client_id,
        )

    def stopped(
        self, request: StopFetcherRequest, offset_info: tuple[TopicOffsets, ...]
    ) -> StopFetcherResponse:
        """What it says when the fetchers that it was to stop have ended there."""
        return StopFetcherResponse(
            consumer_id=self.consumer_id,
            generation=request.generation,
            version=request.version,
            offset_info=offset_info,
        )

    def leave(self, correlation_id: int, reason: str) -> LeaveRequest:
        """What it says at its end, and why, for people."""
        return LeaveRequest(correlation_id=correlation_id, consumer_id=self.consumer_id, reason=reason)
