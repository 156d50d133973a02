"""This room counts what people watch: loop lag, lane queues, lease age, version misses, batches."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY = CollectorRegistry()
_MILLISECONDS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_ROWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

turns = Counter("muster_turns", "Turns by how they ended.", ["outcome"], registry=REGISTRY)
events_refused = Counter(
    "muster_events_refused",
    "What was told or asked and could not be decided or written, by a mistake of ours.",
    ["room"],
    registry=REGISTRY,
)
turn_ms = Histogram(
    "muster_turn_ms", "From the decision to the commit.", buckets=_MILLISECONDS, registry=REGISTRY
)
turn_events = Histogram("muster_turn_events", "Events decided at once.", buckets=_ROWS, registry=REGISTRY)
version_misses = Counter("muster_version_misses", "Turns that had to decide again.", registry=REGISTRY)
unknown_outcomes = Counter(
    "muster_unknown_outcomes", "Transactions whose outcome was looked up.", registry=REGISTRY
)
batch_rows = Histogram(
    "muster_batch_rows", "Offsets written in one commit batch.", buckets=_ROWS, registry=REGISTRY
)
batch_ms = Histogram(
    "muster_batch_ms", "From gathering a batch to its commit.", buckets=_MILLISECONDS, registry=REGISTRY
)
commits_refused = Counter(
    "muster_commits_refused",
    "Commits of offsets that were refused, in part or whole.",
    ["error"],
    registry=REGISTRY,
)
compiled_modules = Gauge("muster_compiled_modules", "0: this node runs plain Python.", registry=REGISTRY)
build_info = Gauge(
    "muster_build_info", "1: the version that this process runs.", ["version"], registry=REGISTRY
)
certificate_ends = Gauge(
    "muster_certificate_ends_seconds",
    "When the certificate of a listener ends, as a Unix time; absent without one.",
    ["listener"],
    registry=REGISTRY,
)
lane_queue = Gauge("muster_lane_queue", "Keys that wait for a turn.", registry=REGISTRY)
leases_held = Gauge("muster_leases_held", "Leases that this node holds.", registry=REGISTRY)
lease_age_ms = Gauge("muster_lease_age_ms", "Since the last confirmed renewal was sent.", registry=REGISTRY)
frozen = Gauge("muster_frozen", "1 while this node may answer nothing.", registry=REGISTRY)
takeovers = Counter("muster_lease_takes", "Leases taken, by reason.", ["reason"], registry=REGISTRY)
runs_ended = Counter("muster_runs_ended", "Peers' runs ended by this node.", ["why"], registry=REGISTRY)
loop_lag_ms = Histogram(
    "muster_loop_lag_ms", "How late the event loop was.", buckets=_MILLISECONDS, registry=REGISTRY
)
work_items = Counter("muster_work_items", "Work items by what became of them.", ["event"], registry=REGISTRY)
publish_skipped = Counter(
    "muster_publish_skipped", "Work that Celery was not asked for.", ["why"], registry=REGISTRY
)
strangers_closed = Counter(
    "muster_strangers_closed",
    "Connections that only held a place and were closed: strangers, and who takes no answer.",
    ["door", "why"],
    registry=REGISTRY,
)


def page() -> bytes:
    """All of it in Prometheus' text format."""
    return generate_latest(REGISTRY)
