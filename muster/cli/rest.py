"""This room speaks REST: one request, its answer or what became of it in words, pages of lists."""

import json
import math
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx

from muster.cli.failures import ExitCode, Failure, usage
from muster.cli.patience import Patience
from muster.cli.places import PREFIX, Place
from muster.kernel.addresses import is_loopback

LARGEST_ANSWER: Final = 64_000_000
"""Bytes; a page of REST has far fewer."""

LARGEST_PAGE: Final = 500
_PAUSES_S: Final = (0.2, 0.6, 1.5)
"""Before each further try, halved or not by chance, so that many who were cut off do not come at once."""

_LONGEST_WAIT_S: Final = 5.0
"""For a Retry-After that is longer, whoever asked is told instead."""

_MAY_PASS: Final = (429, 502, 503, 504)
_NO_ADDRESS: Final = (httpx.InvalidURL, UnicodeError)
"""Of hosts that can be none: some are noticed when the name is looked up."""

_TRIED_IN_VAIN: Final = (httpx.HTTPError, *_NO_ADDRESS)
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, *_NO_ADDRESS)
"""Failures of a try of which nobody has heard."""

_CODE_OF: Final = {
    401: ExitCode.NOT_ALLOWED,
    403: ExitCode.NOT_ALLOWED,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    428: ExitCode.CONFLICT,
    **dict.fromkeys(_MAY_PASS, ExitCode.UNREACHABLE),
}
_ADVICE: Final = {
    401: "Give a token that is good: MUSTER_TOKEN, --token-file, or `muster context add`."
    " `manage.py create_token NAME --role operator` makes one.",
    403: "Whoever administers the cluster gives roles: `manage.py create_token NAME --role operator`.",
    429: "Ask again in a while.",
    503: "Ask again in a moment; `muster doctor` tells what is missing.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What REST said: status, body, and the tag of the version."""

    status: int
    body: dict[str, Any]
    tag: str = ""
    location: str = ""


@dataclass
class Rest:
    """The REST door of one cluster. Every call raises Failure."""

    place: Place
    timeout_s: float
    tell: Callable[[str], None]
    _client: httpx.Client | None = field(default=None, init=False)
    _patience: Patience = field(default_factory=Patience, init=False)

    def close(self) -> None:
        """Let its connections go."""
        if self._client is not None:
            self._client.close()

    def get(self, path: str, **parameters: object) -> Answer:
        """One resource, asked again where that may help."""
        return self._asked("GET", path, parameters, {}, None)

    def found(self, path: str, **parameters: object) -> Answer | None:
        """One resource; None: there is none."""
        try:
            return self.get(path, **parameters)
        except Failure as failure:
            if failure.code is ExitCode.NOT_FOUND:
                return None
            raise

    def rows(self, path: str, most: int = 0, /, **parameters: object) -> Iterator[dict[str, Any]]:
        """The rows of a list, page by page; at most so many, 0: all there are."""
        cursor, given = "", 0
        while True:
            limit = min(LARGEST_PAGE, most - given) if most else LARGEST_PAGE
            page = self.get(path, **parameters, limit=limit, cursor=cursor).body
            items = page.get("items")
            if not (isinstance(items, list) and all(isinstance(one, dict) for one in items)):
                raise self.strange("it answered a list without items")
            yield from items
            given += len(items)
            following = page.get("next")
            if not following or not items or (most and given >= most):
                return
            if following == cursor:
                raise self.strange("its list leads from a page to the same page")
            cursor = str(following)

    def send(
        self,
        method: str,
        path: str,
        key: str,
        *,
        body: Mapping[str, Any] | None = None,
        tag: str = "",
        **parameters: object,
    ) -> Answer:
        """One write under its key: under the same key it is carried out once, however often it is asked."""
        headers = {"Idempotency-Key": key} | ({"If-Match": tag} if tag else {})
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise usage(f"{value!r} is no {name}: it has visible ASCII characters alone.")
        return self._asked(method, path, parameters, headers, body)

    def probe(self, path: str) -> tuple[int, httpx.Headers, str]:
        """What stands outside of REST, such as /readyz, asked once. Raises Failure."""
        try:
            status, headers, content = self._exchanged("GET", f"{self.place.url}{path}", {}, {}, None)
        except _TRIED_IN_VAIN as error:
            raise self._unreachable(error) from error
        return status, headers, content.decode(errors="replace")

    def _asked(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, object],
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
    ) -> Answer:
        """The answer, or the Failure that it is. A write is repeated only where nobody answered."""
        is_unknown, where = False, f"{self.place.url}{PREFIX}/{path}"
        for pause_s in (*_PAUSES_S, None):
            try:
                status, got, content = self._exchanged(method, where, parameters, headers, body)
            except _TRIED_IN_VAIN as error:
                is_unknown = is_unknown or not isinstance(error, _NEVER_SENT)
                may_help = isinstance(error, httpx.TransportError) and not _is_distrust(error)
                if pause_s is None or not may_help:
                    raise self._unreachable(error, is_unknown) from error
                self._pause(pause_s, "Nobody answered")
                continue
            wait_s = _retry_after(got)
            if method == "GET" and status in _MAY_PASS and pause_s is not None and wait_s <= _LONGEST_WAIT_S:
                self._pause(max(pause_s, wait_s), f"It answered {status}")
                continue
            try:
                return self._understood(status, got, content)
            except Failure as failure:
                # Of what an earlier try has done, whoever had no time for this one says nothing.
                failure.is_unknown |= is_unknown and failure.code is ExitCode.UNREACHABLE
                raise
        raise AssertionError("the last try ends the loop")

    def _exchanged(
        self,
        method: str,
        where: str,
        parameters: Mapping[str, object],
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
    ) -> tuple[int, httpx.Headers, bytes]:
        given = {name: _utf8(str(value)) for name, value in parameters.items() if value not in (None, "")}
        content = None if body is None else json.dumps(body)
        sent = {"Content-Type": "application/json", **headers} if body is not None else dict(headers)
        more = {"trace": self._patience.note}
        with (
            self._patience.within(self.timeout_s),
            self._opened().stream(
                method, where, params=given, content=content, headers=sent, extensions=more
            ) as response,
        ):
            parts, size = [], 0
            for part in response.iter_bytes():
                size += len(part)
                if size > LARGEST_ANSWER:
                    raise self.strange(f"its answer has more than {LARGEST_ANSWER} bytes")
                parts.append(part)
            return response.status_code, response.headers, b"".join(parts)

    def _understood(self, status: int, headers: httpx.Headers, content: bytes) -> Answer:
        if 300 <= status < 400:
            where = headers.get("Location", "elsewhere")
            raise usage(f"{self.place.url} sends to {where}.", "Name that address, if it is yours: --url.")
        try:
            body: Any = json.loads(content, **_NUMBERS) if content else {}
        except (ValueError, RecursionError) as error:
            kind = headers.get("Content-Type", "nothing").partition(";")[0]
            raise self.strange(f"it answered {status} with {kind}, no JSON") from error
        if not isinstance(body, dict):
            raise self.strange("it answered JSON of another shape")
        if status >= 400:
            raise refusal(status, body, headers.get("Retry-After", ""))
        return Answer(status, body, headers.get("ETag", ""), headers.get("Location", ""))

    def _opened(self) -> httpx.Client:
        if self._client is None:
            parts = urlsplit(self.place.url)
            near = is_loopback(parts.hostname or "")
            headers = {"Accept": "application/json", "User-Agent": "muster-cli"}
            if self.place.token:
                headers["Authorization"] = f"Bearer {self.place.token}"
            trusted = self._trusted(parts.scheme)
            try:
                # A proxy of the environment has no business between two processes of one machine.
                self._client = httpx.Client(
                    headers=headers,
                    timeout=self.timeout_s,
                    verify=trusted,
                    trust_env=not near,
                    follow_redirects=False,
                )
            except (ImportError, ValueError, httpx.InvalidURL) as error:
                # SOCKS needs one more package; nothing else of these is wrong with what was given.
                raise usage(
                    f"The proxy that the environment names cannot be used: {error}",
                    "Name one by http://, or unset ALL_PROXY and HTTPS_PROXY.",
                ) from error
        return self._client

    def _trusted(self, scheme: str) -> ssl.SSLContext:
        if scheme != "https":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            return ssl.create_default_context(cafile=self.place.ca_file or None)
        except (OSError, ValueError) as error:
            raise usage(f"The authorities in {self.place.ca_file} cannot be used: {error}") from error

    def _pause(self, pause_s: float, why: str) -> None:
        self.tell(f"{why}; asking again.")
        time.sleep(pause_s * random.uniform(0.5, 1.0) if pause_s < 1 else pause_s)

    def _unreachable(self, error: Exception, is_unknown: bool = False) -> Failure:
        where = self.place.url
        what = str(error).rstrip(".") or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            text = f"{where} did not answer within {self.timeout_s:g} s."
            advice = "Ask again, or give it longer: --timeout 60."
        elif isinstance(error, httpx.ConnectError):
            text = f"{where} cannot be reached: {what}."
            advice = "Is it the right address, and does it run? `muster doctor` looks step by step."
            if _is_distrust(error):
                advice = "Name the authority that signed its certificate: --ca-file FILE."
                if not _lacks_authority(error):
                    advice = "Name it as its certificate does, which must be good today: --url ADDRESS."
        elif isinstance(error, _NO_ADDRESS):
            return usage(f"{where} is no address: {what}.", "It looks like https://muster.example.")
        else:
            text = f"The connection to {where} ended before the answer was whole: {what}."
            advice = "Ask again."
        return Failure(ExitCode.UNREACHABLE, text, advice, is_unknown=is_unknown)

    def strange(self, what: str) -> Failure:
        """Whoever answers is not Muster: whatever was asked of it, nobody knows whether that was done."""
        return Failure(
            ExitCode.UNREACHABLE,
            f"{self.place.url} does not answer as Muster does: {what}.",
            "Is it the address of its pages, and nothing in between that answers in its place?",
            is_unknown=True,
        )


def refusal(status: int, problem: Mapping[str, Any], retry_after: str = "") -> Failure:
    """A problem document in words."""
    title = str(problem.get("title") or f"It was refused ({status}).")
    text = str(problem.get("detail") or title)
    kafka = problem.get("kafka_error")
    named = f" ({kafka['name']})" if isinstance(kafka, dict) and kafka.get("name") else ""
    details = list(_wrong_fields(problem.get("errors"), ""))
    results = problem.get("results")
    for one in results if isinstance(results, list) else ():
        if not isinstance(one, dict):
            continue
        number = "" if one.get("partition") is None else f"-{one['partition']}"
        details.append(f"{one.get('name')}{number}: {one.get('text') or one.get('error') or 'done'}")
    if status >= 500 and problem.get("instance"):
        details.append(f"Its log names the request {problem['instance']}.")
    advice = _ADVICE.get(status, "")
    if retry_after.isdecimal() and status in _MAY_PASS:
        details.append(f"It asks to be left alone for {retry_after} s.")
    if status == 412 and "Nothing was changed" not in text:
        advice = "Nothing was changed. Look at it again, then repeat the command."
    code = _CODE_OF.get(status, ExitCode.REFUSED)
    return Failure(code, f"{text}{named}", advice, tuple(details), is_unknown=status >= 500)


def _wrong_fields(errors: Any, where: str) -> Iterator[str]:
    """`configs: …` for each part of a request that does not fit."""
    if isinstance(errors, dict):
        for name, inner in errors.items():
            yield from _wrong_fields(inner, f"{where}.{name}" if where else str(name))
    elif isinstance(errors, list):
        for inner in errors:
            yield from _wrong_fields(inner, where)
    elif errors:
        yield f"{where}: {errors}" if where else str(errors)


def _is_distrust(error: Exception) -> bool:
    """Whether its certificate was not believed, which does not pass."""
    return isinstance(error, httpx.ConnectError) and "certificate" in str(error).lower()


def _lacks_authority(error: Exception) -> bool:
    return not any(word in str(error).lower() for word in ("mismatch", "not valid for", "expired", "not yet"))


def _finite(text: str) -> float:
    """A number of JSON; Python would read one that is too large, and NaN, and write them as no JSON is."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value


_NUMBERS: Final[dict[str, Any]] = {"parse_float": _finite, "parse_constant": _finite}


def _utf8(text: str) -> str:
    if not text.isprintable() and any("\ud800" <= one <= "\udfff" for one in text):
        raise usage(f"{text!r} is no UTF-8.")
    return text


def _retry_after(headers: httpx.Headers) -> float:
    try:
        return max(0.0, float(headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0


def named(*parts: object) -> str:
    """An address below /api/v1/: each part is one name, whatever it holds. Raises Failure if it is none."""
    return "/".join(_segment(str(part)) for part in parts)


def _segment(text: str) -> str:
    if not text:
        raise usage("A name is empty, and would stand for all.", "Name what is meant.")
    _utf8(text)
    # Two dots that are a name are no way up.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")
