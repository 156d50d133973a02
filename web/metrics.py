"""This room counts what the web process does, for Prometheus."""

from prometheus_client import Gauge

LIVE_PAGES = Gauge("muster_web_live_pages", "Open pages with a live websocket.")
LIVE_CHANGES = Gauge("muster_web_live_changes", "Changes numbered by this process since it began.")
