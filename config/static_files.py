"""This room answers for static files: style sheets, scripts and pictures of the pages."""

import io
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import Response, StaticFile


class _AsItWas:
    """A file as it was when this process began, in memory: all of them are 4 MB.

    An upgrade replaces files below a process that runs on. Its pages then lost their style sheet, whose
    length it had stated, or whose name nobody else knew; and what is new may not fit pages that are old.
    """

    def __init__(self, file: StaticFile) -> None:
        self._file = file
        self._bodies = {path: Path(path).read_bytes() for _, path, _ in file.alternatives}

    def get_response(self, method: str | None, request_headers: Mapping[str, str]) -> Response:
        """Answer in full, or with the 304 or 405 that WhiteNoise decides on; no part of a file is given."""
        whole = {name: value for name, value in request_headers.items() if name != "HTTP_RANGE"}
        found = self._file.get_response("HEAD" if method == "GET" else method, whole)
        if method != "GET" or found.status != HTTPStatus.OK:
            return found
        path, headers = self._file.get_path_and_headers(whole)
        return Response(HTTPStatus.OK, headers, io.BytesIO(self._bodies[path]))


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise ships no types
    """WhiteNoise, answering with whole bodies.

    Its streamed response is a synchronous iterator, which an ASGI server would read in a thread a piece at a
    time and Django warns about; our files are small.
    """

    def add_files(self, root: str, prefix: str | None = None) -> None:
        """Know the files below ``root``; before the first `collectstatic` there is no such folder."""
        if Path(root).is_dir():
            super().add_files(root, prefix)

    def get_static_file(self, path: str, url: str, stat_cache: Any = None) -> _AsItWas:
        """The file with the headers that WhiteNoise gives it, held as it is now."""
        return _AsItWas(super().get_static_file(path, url, stat_cache))

    @staticmethod
    def serve(static_file: _AsItWas, request: HttpRequest) -> HttpResponse:
        """Answer with the file, or with the 304 or 405 that WhiteNoise decided on."""
        found = static_file.get_response(request.method, request.META)
        body = b""
        if found.file is not None:
            with found.file as opened:
                body = opened.read()
        response = HttpResponse(body, status=int(found.status))
        # WhiteNoise decides on the type and the caching; Django's default type must not win.
        del response.headers["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response
