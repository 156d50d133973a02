"""This room configures Celery: asked first to do due work; nothing is lost when it is gone (law 2)."""

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import worker_before_create_process, worker_init, worker_process_init

from config.environment import process_role
from muster.kernel.lean_imports import leave_out_what_serves_nobody

if process_role(sys.argv) == "worker":
    leave_out_what_serves_nobody()
# This product has no other settings module, whatever the shell was told for another one.
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
# A worker would run Django's checks, most of a second, and look at no result of theirs.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from django.conf import settings

from config.checks import secret_key_is_own
from muster.kernel.environment import SettingError

try:
    BROKER_URL = settings.REDIS_URL
except SettingError as error:
    # Celery would show its traceback, and the reason as the last of ninety lines.
    sys.exit(f"celery: {error}")
if settings.PROCESS_ROLE == "worker":
    for refusal in secret_key_is_own(None):
        sys.exit(f"celery: {refusal.msg} {refusal.hint}")

app = Celery("muster")

# A publisher waits 0.2 s for Redis and never longer; a worker waits in BRPOP, which is no failure.
_publisher_timeouts = {
    "socket_timeout": 0.2,
    "socket_connect_timeout": 0.2,
    "retry_on_timeout": False,
    "max_retries": 0,
}
_worker_timeouts = {"socket_connect_timeout": 2, "socket_keepalive": True, "health_check_interval": 5}

app.conf.update(
    broker_url=BROKER_URL,
    broker_transport_options=_worker_timeouts if settings.PROCESS_ROLE == "worker" else _publisher_timeouts,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A Redis that became a replica refuses by such errors, and sends away whoever waits: Celery would end.
    broker_channel_error_retry=True,
    worker_consumer="config.consuming:TellingConsumer",
    result_backend=None,
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_acks_late=True,
    task_reject_on_worker_lost=False,
    task_default_queue="muster",
    task_publish_retry=False,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_send_task_events=False,
    event_queue_expires=10,
    timezone="UTC",
)
app.autodiscover_tasks()


@worker_init.connect
def _refuse_a_newer_schema(**_: Any) -> None:
    """A worker waits for a database that does not answer, as it waits for Redis."""
    from django.db import connection

    from kafkaserver.version import own_version
    from runtime.schema import why_not_to_begin

    # Its children say it, and files may be exchanged by then.
    own_version()
    if unknown := why_not_to_begin(connection):
        sys.exit(f"celery: {unknown}")


@worker_before_create_process.connect
def _calm_before_fork(**_: Any) -> None:
    """Children share what was imported before them, and no collection of theirs copies it."""
    from runtime import work
    from runtime.collecting import calm_collector

    work.import_functions()
    calm_collector()


@worker_process_init.connect
def _be_seen(**_: Any) -> None:
    from runtime.tasks import be_seen

    be_seen()
