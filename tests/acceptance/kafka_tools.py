"""This room runs Kafka's own command line tools, one after the other in one Java process."""

import subprocess
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.acceptance.members import java

GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
EVERY_GROUP: Final = "org.apache.kafka.tools.GroupsCommand"


class Said(NamedTuple):
    """What one tool printed, and how it ended."""

    status: int
    text: str

    def rows(self, first: str) -> list[list[str]]:
        """The words of each line that begins with `first`."""
        return [line.split() for line in self.text.splitlines() if line.split()[:1] == [first]]


class Tools:
    """The process; its tools ask the cluster at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._process = subprocess.Popen(
            [*java(), "Tools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It ends when nothing more can be asked."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def groups(self, *words: Any) -> Said:
        """kafka-consumer-groups.sh."""
        return self._ask(GROUPS, "--bootstrap-server", self._bootstrap, *words)

    def every_group(self, *words: Any) -> Said:
        """kafka-groups.sh."""
        return self._ask(EVERY_GROUP, "--bootstrap-server", self._bootstrap, *words)

    def remove_members(self, group: str, *instances: str) -> Said:
        """Admin.removeMembersFromConsumerGroup: these static members, or all members."""
        return self._ask("remove-members", self._bootstrap, group, *instances)

    def _ask(self, *words: Any) -> Said:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith("exit "):
                return Said(int(line.split()[1]), "".join(lines))
            lines.append(line)
        raise AssertionError("the process of the tools ended")
