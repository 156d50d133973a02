"""Groups, logs and operators, walked at random at Muster and at Apache Kafka in step: both answer alike."""

from collections.abc import Iterator

import pytest

from tests.acceptance.members import missing
from tests.beside_kafka.run import both, walked

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing("java")), reason=missing("java")),
]
STEPS = 40
WALKS = [("groups", 0), ("groups", 1), ("groups", 2), *(("log", seed) for seed in range(8)),
         *(("admin", seed) for seed in range(8))]  # fmt: skip


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where clients of both begin."""
    with both(tmp_path_factory.mktemp("both")) as told:
        yield told


@pytest.mark.parametrize(("world", "seed"), WALKS)
def test_every_answer_is_kafkas_own(begin: tuple[str, str], world: str, seed: int) -> None:
    walk, found = walked(begin, seed, STEPS, world)

    assert not found, "\n    ".join(("", *found, *map(str, walk.steps)))
    assert sum(step.heard is not None for step in walk.steps) > STEPS // 2
