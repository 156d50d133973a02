"""This room brings operators' requests to the groups of one shard, each of them once."""

from collections.abc import Callable

import msgspec

from groups.core.requests import KIND, Asked, Findings, GroupRequest
from muster.kernel.error_codes import ErrorCode
from runtime.inbox import RequestInbox
from runtime.ports import Lane, NodeContext
from runtime.work_table import RequestRow


class Requests:
    """The requests about one shard's groups. `hand_in` gives one to its group's next turn."""

    def __init__(self, hand_in: Callable[[str, GroupRequest], None], node: NodeContext) -> None:
        self._hand_in = hand_in
        self._inbox = RequestInbox(KIND, self._take, node)

    def look(self, lane: Lane, key: str) -> None:
        """Somebody asked something of this group."""
        self._inbox.look(lane, key)

    def refused(self, request: GroupRequest) -> None:
        """No turn can be taken with this request."""
        self._inbox.give_up(request.id)

    def forget(self) -> None:
        """The shard was given up: its next owner reads the requests."""
        self._inbox.forget()

    def _take(self, row: RequestRow) -> None:
        asked = msgspec.convert(row.payload, Asked)
        findings = msgspec.convert(row.result or {}, Findings)
        if row.error:
            findings = Findings(error=int(ErrorCode.UNKNOWN_SERVER_ERROR), text=row.error)
        self._hand_in(row.key, GroupRequest(row.id, row.principal, row.reason, asked, findings))
