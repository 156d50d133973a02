"""In a rolling upgrade the command may be newer than the web process that answers it."""

from muster.cli import plans

COPIED = {"to_copy_bytes": 0, "copied_bytes": 0, "rate": 0, "stalled_since": None, "ends_at": None}
STEPS = {"done": 1, "skipped": 0, "cancelled": 0, "failed": 0}


def test_a_plan_of_which_nobody_says_what_cannot_finish_is_shown() -> None:
    assert plans.progress({"steps": STEPS, "step_count": 3, "progress": COPIED}) == "1 of 3"


def test_a_step_of_which_nobody_says_whom_it_waits_for_is_shown() -> None:
    assert plans._why({"why": "its topic is gone"}) == "its topic is gone"
