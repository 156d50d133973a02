"""This room counts what the web process does, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

BUILD_INFO = Gauge("muster_build_info", "1: the version that this process runs.", ["version"])
LIVE_PAGES = Gauge("muster_web_live_pages", "Open pages with a live websocket.")
LIVE_CHANGES = Gauge("muster_web_live_changes", "Changes numbered by this process since it began.")
BUSY_DESKS = Gauge("muster_web_busy_desks", "Requests that are being worked on.")
REFUSED = Counter(
    "muster_web_refused",
    "Requests answered 503 without Django: queue full, no desk, too slow, no memory for bodies.",
    ["why"],
)
ANSWERS = Counter("muster_web_answers", "Answers by the first digit of their status.", ["status"])
ANSWER_MS = Histogram(
    "muster_web_answer_ms",
    "From a whole request to its whole answer.",
    buckets=(5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 15000),
)
