"""An answer in an old version leaves out what newer ones have, without loading all that lie between."""

import subprocess
import sys

import pytest

from muster.kafkawire.api_table import ApiKey, build, part, response_class
from tests.tidy.sources import ROOT

LOADED = """
import sys
from muster.kafkawire.api_table import SERVED, ApiKey, build, part, response_class
api = SERVED[ApiKey.{api}]
response_class(ApiKey.{api}, api.maximum)
shape = response_class(ApiKey.{api}, {version})
build({shape}, {values})
loaded = [name.split(".") for name in sys.modules if name.startswith("kio.schema.{api_name}.v")]
print(*sorted({{parts[3] for parts in loaded}} - {{f"v{{api.maximum}}", "v{version}"}}))
"""


def loaded_beside(api: ApiKey, version: int, shape: str, values: str) -> list[str]:
    """Which versions a fresh process has loaded, beside the newest and the answer's own, to build this."""
    program = LOADED.format(
        api=api.name, api_name=api.name.lower(), version=version, shape=shape, values=values
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_what_the_newest_version_has_is_looked_for_nowhere_else() -> None:
    created = "part(shape, 'CreatableTopicResult')"
    values = "name='a', error_code=0, error_message=None, num_partitions=1, replication_factor=1, configs=()"
    assert loaded_beside(ApiKey.CREATE_TOPICS, 4, created, values) == []


def test_what_was_taken_away_is_looked_for_nearby() -> None:
    values = "brokers=(), cluster_id=None, controller_id=1, topics=(), cluster_authorized_operations=1"
    assert loaded_beside(ApiKey.METADATA, 12, "shape", values) == ["v10", "v11", "v13"]


def test_what_no_version_has_is_refused_however_often_it_is_given() -> None:
    created = part(response_class(ApiKey.CREATE_TOPICS, 4), "CreatableTopicResult")
    for _ in range(2):
        with pytest.raises(TypeError, match="has nmae"):
            build(created, nmae="a", error_code=0, error_message=None)
