"""This room declares every setting of the house once: name, type, unit, default, bounds, meaning.

`docs/settings.md` is written from it. A name is the setting's key in capitals: `group.max.size` is
MUSTER_GROUP_MAX_SIZE; keys are Kafka's where Kafka has one.
"""

from muster.kernel.environment import Setting, Value

DAY_MS = 86_400_000
LARGEST = 2**31 - 1


def _ms(name: str, default: int, meaning: str, *, least: int = 1, most: int = DAY_MS) -> Setting:
    return Setting(
        name=name, kind="number", unit="ms", default=default, least=least, most=most, meaning=meaning
    )


def _count(
    name: str, default: Value, meaning: str, *, least: int = 1, most: int = LARGEST, unit: str = ""
) -> Setting:
    return Setting(
        name=name, kind="number", unit=unit, default=default, least=least, most=most, meaning=meaning
    )


def _bytes(name: str, default: int, meaning: str) -> Setting:
    return _count(name, default, meaning, unit="bytes")


def _switch(name: str, meaning: str, *, default: bool = False) -> Setting:
    return Setting(name=name, kind="switch", default=default, meaning=meaning)


def _words(name: str, meaning: str, *default: str, required: bool = False) -> Setting:
    return Setting(name=name, kind="words", default=default, required=required, meaning=meaning)


def _text(name: str, default: str, meaning: str, *, secret: bool = False, required: bool = False) -> Setting:
    return Setting(name=name, default=default, secret=secret, required=required, meaning=meaning)


EVERY_PROCESS = (
    Setting(
        name="MUSTER_LOG_LEVEL",
        kind="choice",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
        meaning="Log lines below this level are not written.",
    ),
    _switch(
        "MUSTER_COMPILED",
        "Brokers and nodes run the modules that `make compiled` has compiled, where they fit the sources.",
        default=True,
    ),
    _text("MUSTER_HOME", ".muster", "Folder of the stack that `make up` runs; tools work on that stack."),
    _count(
        "MUSTER_STRANGERS_PER_ADDRESS",
        500,
        "Connections of one address that have not said yet who they are, at a Kafka listener that asks or an"
        " HTTP or websocket door; beyond, the oldest is closed. 0: any number, for a TCP proxy in between.",
        least=0,
    ),
)

DJANGO_PROCESSES = (
    _text(
        "DATABASE_URL",
        "postgresql://muster@127.0.0.1:5432/muster",
        "PostgreSQL 17 or newer. Tools work on the stack that runs in MUSTER_HOME when this is not set, or"
        " MUSTER_HOME is.",
        secret=True,
    ),
    _text(
        "DATABASE_DIRECT_URL",
        "",
        "The same database without a pooler, for leases, lanes and LISTEN; DATABASE_URL when not set.",
        secret=True,
    ),
    _text("REDIS_URL", "redis://127.0.0.1:6379/0", "Celery's broker, nothing else.", secret=True),
    _text(
        "SECRET_KEY",
        "insecure-default-key-that-only-loopback-accepts",
        "Signs sessions and cursors; by what follows from it workers and brokers prove who they are. Off"
        " loopback and with MUSTER_KAFKA_SASL the default, and fewer than 32 characters, are refused.",
        secret=True,
    ),
    _words("ALLOWED_HOSTS", "Host names by which people reach the pages.", "127.0.0.1", "localhost", "[::1]"),
    _words("MUSTER_TRUSTED_ORIGINS", "Origins that may send forms, such as https://muster.example."),
    _switch("MUSTER_BEHIND_TLS_PROXY", "A proxy speaks TLS and sets X-Forwarded-Proto and X-Forwarded-For."),
    _switch("MUSTER_DEBUG", "Show tracebacks to whoever asks; refused off loopback."),
    _text("MUSTER_CLUSTER_NAME", "muster", "The cluster's name on the pages."),
    _text("MUSTER_ENVIRONMENT", "", "Environment on the pages, such as Production."),
    _text(
        "MUSTER_SHARED_DATABASE",
        "",
        "Name of a database that may be migrated though it holds other people's tables.",
    ),
    _text("MUSTER_NODE_NAME", "node-1", "This node's name, the same at each of its starts."),
    _text("MUSTER_NODE_LISTEN", "127.0.0.1:9301", "HOST:PORT of a node's websockets."),
    _text("MUSTER_NODE_ADDRESS", "", "Where others reach this node; ws:// and where it listens."),
    _text(
        "MUSTER_NODE_KAFKA_LISTEN",
        "127.0.0.1:0",
        "HOST:PORT of a node's Kafka listener, which clients find by any broker.",
    ),
    _text("MUSTER_NODE_KAFKA_ADDRESS", "", "HOST:PORT where Kafka clients reach it; where it listens."),
    _count(
        "MUSTER_NODE_KAFKA_CONNECTIONS",
        5_000,
        "Connections of a node's Kafka listener; never more than half of what the process may open.",
    ),
    _text("MUSTER_WEB_LISTEN", "127.0.0.1:8000", "HOST:PORT of pages and REST."),
    _text("MUSTER_WEB_URL", "", "Where people reach the pages; http:// and where it listens."),
    _text("MUSTER_STATIC_ROOT", "", "Folder that `collectstatic` fills; var/static in the checkout."),
)

GROUPS = (
    _ms(
        "MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS",
        6_000,
        "Shortest session timeout that a member may ask for.",
        least=100,
    ),
    _ms(
        "MUSTER_GROUP_MAX_SESSION_TIMEOUT_MS",
        1_800_000,
        "Longest session timeout that a member may ask for.",
        least=100,
    ),
    _count(
        "MUSTER_GROUP_MAX_SIZE",
        10_000,
        "Members of one group; so many ids may wait for their first JoinGroup, too.",
        most=100_000,
    ),
    _bytes(
        "MUSTER_GROUP_MAX_METADATA_BYTES",
        67_108_864,
        "What the Kafka clients of one group may state of themselves together: the leader is sent all of it.",
    ),
    _ms(
        "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS",
        3_000,
        "How long the first rebalance of an empty group of Kafka clients waits for more of them.",
        least=0,
    ),
    _count(
        "MUSTER_PING_MAX_RETRIES", 0, "Pings beyond the first that may stay unanswered.", least=0, most=100
    ),
    _count(
        "MUSTER_REBALANCE_MAX_RETRIES",
        4,
        "Unanswered StopFetcher or StartFetcher beyond the first, until MUSTER_ON_EXHAUSTED.",
        least=0,
        most=100,
    ),
    _ms(
        "MUSTER_REBALANCE_BACKOFF_MS",
        200,
        "Rest between a failed rebalance and the next.",
        least=0,
        most=600_000,
    ),
    Setting(
        name="MUSTER_ON_EXHAUSTED",
        kind="choice",
        default="expel",
        choices=("expel", "fail"),
        meaning="After the retries: expel who does not answer, or fail the rebalance.",
    ),
    _ms(
        "MUSTER_OFFSET_COMMIT_INTERVAL_MS",
        1_000,
        "How often commits that wait are written though nothing else happens.",
        least=10,
        most=600_000,
    ),
    _count(
        "MUSTER_OFFSETS_RETENTION_MINUTES",
        10_080,
        "How long committed offsets outlive their group's last member, or the commit where none ever was.",
        unit="minutes",
    ),
    _ms(
        "MUSTER_OFFSETS_RETENTION_CHECK_INTERVAL_MS",
        600_000,
        "How often each group is looked at for offsets that are older.",
        least=100,
    ),
    _count(
        "MUSTER_CONSUMER_DOOR_FRAMES_PER_SECOND", 2_000, "Frames of one member; beyond, it waits.", unit="1/s"
    ),
    _ms(
        "MUSTER_CONSUMER_DOOR_REGISTRATION_TIMEOUT_MS",
        10_000,
        "A connection that has not registered by then is closed.",
        least=100,
        most=600_000,
    ),
    _count("MUSTER_CONSUMER_DOOR_CONNECTIONS", 10_000, "Member connections of one node."),
    _count("MUSTER_CONSUMER_DOOR_CONNECTIONS_PER_PRINCIPAL", 10_000, "Member connections of one token."),
    # More would end at `coordinator.callers.HELD_MAX` whenever a turn of the member is under way.
    _count(
        "MUSTER_CONSUMER_DOOR_UNANSWERED_COMMITS",
        1_000,
        "Commits of a member that are not answered.",
        most=1_000,
    ),
)

CONTROLLER = (
    _ms("MUSTER_BROKER_SESSION_TIMEOUT_MS", 9_000, "A broker not heard for this long is dead.", least=100),
    _ms(
        "MUSTER_BROKER_CLOSED_LINK_TIMEOUT_MS",
        1_000,
        "A broker whose link closed has this long to come back, unless its address refuses the controller.",
        least=10,
    ),
    _count("MUSTER_NUM_PARTITIONS", 1, "Partitions of a topic created without a number.", most=10_000),
    _count(
        "MUSTER_DEFAULT_REPLICATION_FACTOR", 1, "Replicas of a topic created without a number.", most=9_999
    ),
    _switch(
        "MUSTER_UNCLEAN_LEADER_ELECTION_ENABLE",
        "For topics that set none: elect a replica outside of the ISR rather than none.",
    ),
    _count(
        "MUSTER_MIN_INSYNC_REPLICAS",
        1,
        "For topics that set none: replicas that must hold a record of acks=all. Brokers are told.",
        most=9_999,
    ),
    _switch(
        "MUSTER_AUTO_LEADER_REBALANCE_ENABLE",
        "Partitions go back to the broker that stands first for them once it is in sync.",
        default=True,
    ),
    _count(
        "MUSTER_LEADER_IMBALANCE_PER_BROKER_PERCENTAGE",
        10,
        "Of a broker that does not lead more than this part of what it stands first for.",
        least=0,
        most=100,
        unit="%",
    ),
    _ms(
        "MUSTER_LEADER_IMBALANCE_CHECK_INTERVAL_MS",
        300_000,
        "How often leaders are looked at: the preferred ones, and unclean ones where topics allow them.",
        least=100,
    ),
    _ms(
        "MUSTER_UNPROVEN_PATIENCE_MS",
        30_000,
        "After a promotion or a restore: how long a partition waits for logs of replicas that are away.",
        least=0,
    ),
    _ms("MUSTER_CONTROLLER_ACK_TIMEOUT_MS", 30_000, "A broker this far behind gets a new link.", least=100),
)

KAFKA_DOORS = (
    _switch("MUSTER_KAFKA_SASL", "Kafka clients prove who they are with a token; needed off loopback."),
    _text("MUSTER_KAFKA_TLS_CERTIFICATE", "", "PEM file of the chain; Kafka listeners then speak TLS."),
    _text("MUSTER_KAFKA_TLS_KEY", "", "PEM file of the certificate's key."),
    _text(
        "MUSTER_KAFKA_TLS_CA",
        "",
        "PEM file of whom workers, nodes and brokers trust as brokers, and brokers as nodes; whom the system"
        " trusts when not set.",
    ),
    _count(
        "MUSTER_KAFKA_CONNECTIONS_PER_ADDRESS",
        0,
        "Connections of one address (a /64 of IPv6) to one Kafka listener of clients, of whoever they are;"
        " beyond, another one is closed at once, as by Kafka's max.connections.per.ip. 0: any number.",
        least=0,
    ),
    _ms(
        "MUSTER_KAFKA_CALLERS_MAX_AGE_MS",
        3_600_000,
        "With MUSTER_KAFKA_SASL: when nobody has confirmed for so long who may come in, nobody new does.",
        least=60_000,
        most=LARGEST,
    ),
    _ms(
        "MUSTER_KAFKA_CALLERS_MAX_AGE_STANDING_MS",
        DAY_MS,
        "The same for connections that stand; 0: they stay.",
        least=0,
        most=LARGEST,
    ),
)

BROKER = (
    Setting(
        name="MUSTER_BROKER_ID",
        kind="number",
        least=1,
        most=9_999,
        required=True,
        meaning="The broker's number.",
    ),
    _text("MUSTER_BROKER_LISTEN", "127.0.0.1:9092", "HOST:PORT of Kafka clients."),
    _text("MUSTER_BROKER_ADDRESS", "", "HOST:PORT where Kafka clients reach it; where it listens."),
    _text(
        "MUSTER_BROKER_REPLICATION_LISTEN",
        "127.0.0.1:0",
        "HOST:PORT of other brokers; off loopback it speaks TLS with MUSTER_KAFKA_TLS_CERTIFICATE.",
    ),
    _text(
        "MUSTER_BROKER_REPLICATION_ADDRESS", "", "HOST:PORT where other brokers reach it; where it listens."
    ),
    _text("MUSTER_BROKER_HTTP_LISTEN", "", "HOST:PORT of /livez, /readyz, /metrics; unserved if empty."),
    _text("MUSTER_BROKER_DATA", "", "Folder of the logs, of this broker alone.", required=True),
    _words("MUSTER_NODES", "Websocket addresses of nodes; any one of them suffices.", required=True),
    _text("MUSTER_BROKER_SECRET", "", "What `manage.py enroll_broker` printed.", secret=True, required=True),
    _text("MUSTER_BROKER_RACK", "", "Where it stands; replicas are spread over racks."),
    _text("MUSTER_CLUSTER_ID", "", "The only cluster that this broker joins; any when empty."),
    _ms("MUSTER_BROKER_HEARTBEAT_INTERVAL_MS", 500, "How often the broker says that it lives."),
    _ms("MUSTER_BROKER_RELINK_INTERVAL_MS", 200, "Rest before a lost link is tried again."),
    _ms("MUSTER_REPLICA_LAG_TIME_MAX_MS", 30_000, "A follower this long behind leaves the ISR."),
    _ms("MUSTER_REPLICA_FETCH_WAIT_MAX_MS", 500, "How long a follower's fetch waits for records."),
    _bytes("MUSTER_REPLICA_FETCH_MIN_BYTES", 1, "What a follower's fetch waits for."),
    _bytes("MUSTER_REPLICA_FETCH_MAX_BYTES", 1_048_576, "Of one partition in one replica fetch."),
    _bytes("MUSTER_REPLICA_FETCH_RESPONSE_MAX_BYTES", 10_485_760, "Of one whole replica fetch."),
    _ms("MUSTER_REPLICA_FETCH_BACKOFF_MS", 200, "Rest after a replica fetch that failed."),
    _ms("MUSTER_REPLICA_SOCKET_TIMEOUT_MS", 10_000, "A leader this long silent is asked anew."),
    _count(
        "MUSTER_MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS",
        1_000,
        "Consumers that may name only what moved in a fetch; the others name all their partitions. Of one"
        " address at most half.",
        least=0,
    ),
    _count(
        "MUSTER_SOCKET_SEND_BUFFER_BYTES",
        262_144,
        "Send buffer of each Kafka connection of a broker (Kafka's socket.send.buffer.bytes). Readers far"
        " away need more: their round trip times the rate wanted; Linux gives no more than its"
        " net.core.wmem_max. 0: the system decides, and large fetches cost about twice the CPU.",
        unit="bytes",
        least=0,
    ),
    _bytes("MUSTER_LOG_SEGMENT_BYTES", 1_073_741_824, "A segment this long is closed and the next begun."),
    _bytes(
        "MUSTER_LOG_RESERVE_BYTES",
        67_108_864,
        "With less room left on its disk a broker takes no records.",
    ),
    _bytes("MUSTER_MESSAGE_MAX_BYTES", 1_048_588, "Largest record batch that a producer may send."),
    _ms(
        "MUSTER_INITIAL_BROKER_REGISTRATION_TIMEOUT_MS",
        60_000,
        "Kept out so long by another process of its id, a broker ends.",
    ),
    _ms(
        "MUSTER_CONTROLLED_SHUTDOWN_TIMEOUT_MS",
        5_000,
        "Told to stop, a broker serves on so long for others to lead what it leads.",
    ),
    _ms(
        "MUSTER_STRAY_RETENTION_MS",
        DAY_MS,
        "A log that no assignment names is deleted after this.",
        most=LARGEST,
    ),
    _ms(
        "MUSTER_FILE_DELETE_DELAY_MS",
        60_000,
        "The log of a deleted topic is erased after this.",
        most=LARGEST,
    ),
    _ms(
        "MUSTER_REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS",
        5_000,
        "How often high watermarks are written to disk.",
    ),
)

STACKS = (
    _text(
        "MUSTER_DATABASE_URL",
        "",
        "For `make up`: a PostgreSQL of yours in place of the embedded one. It reads no DATABASE_URL.",
        secret=True,
    ),
    _text(
        "MUSTER_REDIS_URL",
        "",
        "For `make up`: a Redis of yours in place of the embedded one. It reads no REDIS_URL.",
        secret=True,
    ),
    _text("MUSTER_SITE", "localhost", "For docker/compose.yaml: the host name of the pages."),
)

COMMAND_LINE = (
    _text("MUSTER_URL", "", "The cluster that `muster` asks: the address of its pages."),
    _text(
        "MUSTER_TOKEN",
        "",
        "The token by which `muster` asks, and by which the demo's consumers register.",
        secret=True,
    ),
    _text("MUSTER_CONTEXT", "", "The cluster that `muster` asks: the name of a context."),
    _text("MUSTER_CA_FILE", "", "Authorities that `muster` trusts in place of the system's."),
)

VERBS = (
    _count("NODES", 1, "Nodes of `make up`.", most=100),
    _count("BROKERS", 3, "Brokers of `make up`.", most=300),
    _count("WORKERS", 1, "Celery workers of `make up`.", least=0, most=100),
    _count(
        "PORT",
        0,
        "Where the pages of `make up` listen; nodes from PORT + 1, brokers from PORT + 10. 0: as at the last"
        " start, or any that are free.",
        least=0,
        most=65_000,
    ),
    _text("SPEED", "8", "Days a second that `make demo` replays; a number of at least 0.01."),
    _count("FLIGHTS", 0, "Flights that `make demo` replays; 0: all.", least=0),
    _switch("EXIT", "`make demo` ends after its summary."),
)

TESTS = (
    _switch("MUSTER_TEST", "Lets MUSTER_FAILPOINTS act."),
    _text("MUSTER_FAILPOINTS", "", "Points at which this process ends or stops itself: `name=exit@3;…`."),
)

SECTIONS: dict[str, tuple[Setting, ...]] = {
    "Every process": EVERY_PROCESS,
    "Node, web, worker and tools": DJANGO_PROCESSES,
    "Groups (node)": GROUPS,
    "Controller (node, web, worker)": CONTROLLER,
    "Kafka listeners (broker, node)": KAFKA_DOORS,
    "Brokers": BROKER,
    "Stacks": STACKS,
    "Command line": COMMAND_LINE,
    "Verbs of the Makefile": VERBS,
    "Tests": TESTS,
}
"""Every setting, by who reads it."""

DECLARED = tuple(setting for settings in SECTIONS.values() for setting in settings)
