"""This room runs Kafka's own command line tools, one after the other in one Java process."""

import copy
import subprocess
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.acceptance.members import java

TOOLS: Final = "org.apache.kafka.tools"
GROUPS: Final = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
EVERY_GROUP: Final = f"{TOOLS}.GroupsCommand"
ELECTIONS: Final = f"{TOOLS}.LeaderElectionCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CLUSTER: Final = f"{TOOLS}.ClusterTool"
API_VERSIONS: Final = f"{TOOLS}.BrokerApiVersionsCommand"
FEATURES: Final = f"{TOOLS}.FeatureCommand"
DELETE_RECORDS: Final = f"{TOOLS}.DeleteRecordsCommand"
GROUPS_PATIENCE_MS: Final = 120_000
"""kafka-consumer-groups.sh waits for five seconds unless told otherwise: thousands of groups take longer."""


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
        self.bootstrap = bootstrap
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
        self._process.wait(60)
        self._process.stdout.close()

    def at(self, bootstrap: str) -> Self:
        """The same process, whose tools ask another door."""
        other = copy.copy(self)
        other.bootstrap = bootstrap
        return other

    def run(self, name: str, *words: Any, fed: str = "") -> Said:
        """Kafka's tool of this name, below `org.apache.kafka.tools`; `fed` is what it reads."""
        asked = (f"{TOOLS}.{name}", "--bootstrap-server", self.bootstrap, *words)
        return self._ask(*asked, *(["<" + fed.replace("\n", "\\n")] if fed else []))

    def groups(self, *words: Any) -> Said:
        """kafka-consumer-groups.sh."""
        asked = (GROUPS, "--bootstrap-server", self.bootstrap, "--timeout", GROUPS_PATIENCE_MS)
        return self._ask(*asked, *words)

    def every_group(self, *words: Any) -> Said:
        """kafka-groups.sh."""
        return self._ask(EVERY_GROUP, "--bootstrap-server", self.bootstrap, *words)

    def elections(self, *words: Any) -> Said:
        """kafka-leader-election.sh."""
        return self._ask(ELECTIONS, "--bootstrap-server", self.bootstrap, *words)

    def configs(self, *words: Any) -> Said:
        """kafka-configs.sh."""
        return self._ask(CONFIGS, "--bootstrap-server", self.bootstrap, *words)

    def cluster(self, command: str, *words: Any) -> Said:
        """kafka-cluster.sh."""
        return self._ask(CLUSTER, command, "--bootstrap-server", self.bootstrap, *words)

    def api_versions(self) -> Said:
        """kafka-broker-api-versions.sh."""
        return self._ask(API_VERSIONS, "--bootstrap-server", self.bootstrap)

    def features(self, *words: Any) -> Said:
        """kafka-features.sh."""
        return self._ask(FEATURES, "--bootstrap-server", self.bootstrap, *words)

    def delete_records(self, *words: Any) -> Said:
        """kafka-delete-records.sh."""
        return self._ask(DELETE_RECORDS, "--bootstrap-server", self.bootstrap, *words)

    def remove_members(self, group: str, *instances: str) -> Said:
        """Admin.removeMembersFromConsumerGroup: these static members, or all members."""
        return self._ask("remove-members", self.bootstrap, group, *instances)

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
