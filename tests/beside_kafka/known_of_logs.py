"""This room knows which answers about logs are meant to differ, each by its row of docs/deviations.md."""

from collections.abc import Callable
from typing import Final

from muster.kernel.error_codes import ErrorCode
from tests.beside_kafka.doors import Difference
from tests.beside_kafka.lockstep import Known, Values

ZSTD: Final = 4
LENGTHS: Final = ("magic 3", "a length below a header", "a length that is too small")
DAY_MS: Final = 86_400_000


def _spoilt(*names: str) -> Callable[[Values, Difference], bool]:
    def holds(about: Values, one: Difference) -> bool:
        return about.get("spoilt") in names and one.where.endswith("error_code")

    return holds


def _fewer_bytes(about: Values, one: Difference) -> bool:
    """Each codec makes another size of it, and what is cut off leaves no room for the next partition."""
    if not (one.where.endswith(".batches") and (about.get("recompressed") or about.get("several"))):
        return False
    many = min(len(one.ours), len(one.theirs))
    return bool(one.ours[:many] == one.theirs[:many]) and (many > 0 or bool(about["several"]))


def _is_wrong_twice(about: Values, one: Difference) -> bool:
    """Each names what it looks at first."""
    batch = about.get("batch")
    if batch is None or not (one.ours and one.theirs and one.where.endswith("error_code")):
        return False
    configs, late_ms = about["configs"], batch.time_ms - about["now_ms"]
    bytes_told = batch.records * (batch.size_bytes + 20) + 61
    wrong = (
        batch.spoilt is not None,
        not about["is_there"],
        about["acks"] not in (-1, 1),
        about["transactional"] is not None,
        bytes_told > int(configs.get("max.message.bytes", 1 << 20)),
        abs(late_ms) > DAY_MS / 25,
        about["is_idempotent"],
        not batch.is_keyed and "compact" in configs.get("cleanup.policy", ""),
        batch.codec == ZSTD and about["version"] < 7,
    )
    return wrong.count(True) > 1


KNOWN_OF_LOGS: Final = (
    Known("bytes behind a batch in Produce", _spoilt("bytes behind it", *LENGTHS)),
    Known("LogAppendTime that a producer states", _spoilt("append time")),
    Known(
        "batches are opened and checked record by record",
        _spoilt("a record too many"),
    ),
    Known(
        "batches are opened and checked record by record",
        lambda about, one: (
            bool(about.get("lied")) and (one.where.endswith((".times", ".attributes")) or "time_ms" in about)
        ),
    ),
    Known(
        "a level of isolation",
        lambda about, one: (
            about.get("spoilt") == "codec 5" and one.ours == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        ),
    ),
    Known(
        "a producer's epoch of −1",
        lambda about, one: about.get("epoch", 0) < 0 and one.ours == ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    Known(
        "a Fetch below version 10 of a topic in zstd",
        lambda about, one: (
            about["version"] < 10
            and one.where.endswith("error_code")
            and one.ours == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        ),
    ),
    Known(
        "transactions",
        lambda about, one: (
            (bool(about.get("transactional")) or about.get("spoilt") == "transactional")
            and one.ours in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD)
        ),
    ),
    Known(
        "a batch that comes again is answered with",
        lambda about, one: (
            one.where == ".append_time.is_told" and one.theirs and bool(about["is_idempotent"])
        ),
    ),
    Known("a Fetch ends within a batch", _fewer_bytes),
    Known("a request that is wrong in several ways", _is_wrong_twice),
    Known(
        "ListOffsets by the newest time",
        lambda about, one: bool(about.get("deleted")) and about["time_ms"] in (-3, 0, 1_000, 1_001),
    ),
)
