"""Static files are answered as they were when the process began, whatever an upgrade makes of them since."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import RequestFactory, override_settings

from config.static_files import StaticFiles

OLD = "a { color: #064d50; }"


@pytest.fixture
def sheet(tmp_path: Path) -> Iterator[Path]:
    """A style sheet in the folder that `collectstatic` fills."""
    path = tmp_path / "muster.css"
    path.write_text(OLD)
    with override_settings(STATIC_ROOT=str(tmp_path), WHITENOISE_USE_FINDERS=False):
        yield path


def begun() -> StaticFiles:
    return StaticFiles(lambda _: HttpResponse("nothing is here", status=404))


def asked(files: StaticFiles, method: str = "GET", headers: dict[str, str] | None = None) -> HttpResponse:
    answer = files(RequestFactory().generic(method, "/static/muster.css", headers=headers))
    assert isinstance(answer, HttpResponse)
    return answer


def test_a_file_that_was_replaced_is_answered_whole_and_as_it_was(sheet: Path) -> None:
    files = begun()
    sheet.write_text("a { color: red; } b { color: of an upgrade; }")
    answer = asked(files)
    assert answer.content.decode() == OLD
    assert answer["Content-Length"] == str(len(OLD)) and answer["Content-Type"].startswith("text/css")


def test_a_file_that_was_deleted_is_answered_as_it_was(sheet: Path) -> None:
    files = begun()
    sheet.unlink()
    assert asked(files).content.decode() == OLD


def test_a_part_is_answered_by_the_whole(sheet: Path) -> None:
    answer = asked(begun(), headers={"Range": "bytes=0-3"})
    assert answer.status_code == 200 and answer.content.decode() == OLD


def test_who_has_it_is_told_so_and_who_asks_for_its_head_gets_no_body(sheet: Path) -> None:
    files = begun()
    known = asked(files)["ETag"]
    assert asked(files, headers={"If-None-Match": known}).status_code == 304
    head = asked(files, "HEAD")
    assert head.content == b"" and head["Content-Length"] == str(len(OLD))
    assert asked(files, "POST").status_code == 405
