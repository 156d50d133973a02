"""This room answers for static files: style sheets, scripts and pictures of the pages."""

from pathlib import Path

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise ships no types
    """WhiteNoise, answering with whole bodies.

    Its streamed response is a synchronous iterator, which an ASGI server would read in a thread a piece at a
    time and Django warns about; our files are small.
    """

    def add_files(self, root: str, prefix: str | None = None) -> None:
        """Know the files below ``root``; before the first `collectstatic` there is no such folder."""
        if Path(root).is_dir():
            super().add_files(root, prefix)

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
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
