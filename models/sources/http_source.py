"""A file at a URL, downloaded over HTTP with resume."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager

import httpx

from ..errors import SourceUnavailable
from .download_source import Cancelled, RemoteFile, Transfer, raise_if_cancelled
from .partial_file import PartialFile, PartialNotes
from .ranged_file import RangedFile

_MAX_REDIRECTS = 8
# A silent server also delays a cancellation by this long.
_TIMEOUT = httpx.Timeout(10, connect=5)
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class _ConnectionLost(Exception):
    """The transfer stopped, and asking again may help."""


class HTTPSource:
    """Fetches one address over TLS; plain HTTP is for explicit addresses of this machine only.

    `headers` (credentials, say) go to the address's own host and are left out after a redirect to
    another. `refusals` explain what a status means there: a sentence, and what to do.
    """

    scratch_fraction = 0.0

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        label: str | None = None,
        refusals: Mapping[int, tuple[str, str]] | None = None,
        retries: int = 4,
        retry_delay: float = 0.5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`retries` bounds the attempts in a row that bring nothing; delays double in between."""
        self._transport = transport
        self._url = url
        self._headers = dict(headers or {})
        self._label = label
        self._refusals = refusals or {}
        self._retries = retries
        self._retry_delay = retry_delay

    @property
    def label(self) -> str:
        """The name of the place for people: the host, unless the caller gives another."""
        return self._label or httpx.URL(self._url).host

    def fetch(self, transfer: Transfer) -> None:
        """Bring the file to its end; see `Source.fetch`."""
        partial = transfer.partial
        start = furthest = partial.size
        failures = 0
        with self._client() as client:
            while True:
                try:
                    return self._attempt(client, transfer)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    # Unreachable: another source is more promising than a retry.
                    if furthest == start:
                        raise self._unavailable(error) from error
                    lost: Exception = error
                except (httpx.TransportError, _ConnectionLost) as error:
                    lost = error
                # Only new ground counts, or a server that cuts and refuses ranges keeps us busy.
                failures = 1 if partial.size > furthest else failures + 1
                furthest = max(furthest, partial.size)
                if failures > self._retries:
                    raise self._unavailable(lost) from lost
                _wait(self._retry_delay * 2 ** (failures - 1), transfer.cancelled)

    @contextmanager
    def ranges(self) -> Generator[RangedFile]:
        """The file, of which only what is read is fetched; see `Source.ranges`."""
        with self._client() as client:

            def open_range(start: int, end: int) -> AbstractContextManager[httpx.Response]:
                return self._open(client, {"Range": f"bytes={start}-{end - 1}"})

            try:
                yield RangedFile(self.label, open_range, self._refused)
            except httpx.TransportError as error:
                raise self._unavailable(error) from error

    def _client(self) -> httpx.Client:
        return httpx.Client(
            timeout=_TIMEOUT, headers={"Accept-Encoding": "identity"}, transport=self._transport
        )

    def _attempt(self, client: httpx.Client, transfer: Transfer) -> None:
        raise_if_cancelled(transfer.cancelled)
        partial = transfer.partial
        headers = self._range_headers(transfer.file, partial)
        with self._open(client, headers) as response:
            total = self._check_response(response, transfer.file, partial)
            transfer.on_progress(partial.size, total)
            for data in response.iter_raw():
                if total is not None and partial.size + len(data) > total:
                    partial.restart()
                    raise SourceUnavailable(
                        f"{self.label} sent more than the file's {total} bytes."
                    )
                transfer.append(data)
                transfer.on_progress(partial.size, total)
        if total is not None and partial.size < total:
            raise _ConnectionLost(f"{self.label} stopped after {partial.size} of {total} bytes")

    def _range_headers(self, file: RemoteFile, partial: PartialFile) -> dict[str, str]:
        """Ask for the rest of the file where continuing is safe, else start over."""
        if partial.size == 0:
            return {}
        notes = partial.notes
        if notes.origin == self._url and notes.validator is not None:
            return {"Range": f"bytes={partial.size}-", "If-Range": notes.validator}
        if file.sha256 is not None:  # the digest will tell if the halves do not match
            return {"Range": f"bytes={partial.size}-"}
        partial.restart()
        return {}

    @contextmanager
    def _open(self, client: httpx.Client, headers: Mapping[str, str]) -> Generator[httpx.Response]:
        """The response at the end of the redirects, each of which is checked."""
        start = url = self._parse(self._url)
        for _ in range(_MAX_REDIRECTS):
            extra = self._headers if _origin(url) == _origin(start) else {}
            with client.stream("GET", url, headers={**extra, **headers}) as response:
                if response.next_request is None:
                    yield response
                    return
                target = response.next_request.url
            self._check_redirect(start, target)
            url = target
        raise SourceUnavailable(f"{self.label} redirects without end.")

    def _check_response(
        self, response: httpx.Response, file: RemoteFile, partial: PartialFile
    ) -> int | None:
        """Bring `partial` to where the body begins; returns the size of the whole file."""
        status = response.status_code
        if status in _RETRIED_STATUS:
            raise _ConnectionLost(f"{self.label} answers {_phrase(response)}")
        if status == 416:
            partial.restart()
            raise _ConnectionLost(f"{self.label} has no bytes where the last attempt ended")
        if status not in (200, 206):
            raise self._refused(response)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise SourceUnavailable(f"{self.label} sends the file in an encoding not asked for.")
        if response.headers.get("Content-Type", "").startswith("text/html"):
            raise SourceUnavailable(
                f"{self.label} sends a web page instead of the file.",
                hint="Some networks want a login first: open a page in a browser, then pull again.",
            )
        if status == 206:
            total = _length_from(response, partial)
        else:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            partial.restart()
        if file.size is not None and total is not None and total != file.size:
            raise SourceUnavailable(f"{self.label} has another file, of {total} bytes.")
        # Only a strong ETag identifies this version of the file in `If-Range`.
        tag = response.headers.get("ETag")
        validator = tag if tag and not tag.startswith("W/") else None
        if (partial.notes.origin, partial.notes.validator) != (self._url, validator):
            partial.notes = PartialNotes(self._url, validator)
            partial.save_notes()
        return total if total is not None else file.size

    def _refused(self, response: httpx.Response) -> SourceUnavailable:
        status = response.status_code
        if status in self._refusals:
            sentence, hint = self._refusals[status]
            return SourceUnavailable(f"{sentence} ({self.label} answers {status}).", hint=hint)
        advice = " (a token may be needed)" if status in (401, 403) else ""
        return SourceUnavailable(f"{self.label} answers {_phrase(response)}{advice}.")

    def _parse(self, text: str) -> httpx.URL:
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL as error:
            raise SourceUnavailable(f"{text!r} is not an address: {error}.") from error
        if not url.host or url.userinfo:
            raise SourceUnavailable(f"{text!r} is not an address that files are fetched from.")
        if url.scheme != "https" and not (url.scheme == "http" and _is_loopback(url.host)):
            raise SourceUnavailable(f"{url.host} is asked for without https, which is not safe.")
        return url

    def _check_redirect(self, start: httpx.URL, target: httpx.URL) -> None:
        if target.scheme != "https" and not (target.scheme == "http" and _is_loopback(start.host)):
            raise SourceUnavailable(f"{self.label} redirects to an address without https.")
        if target.host != start.host and not _is_inside(start.host) and _is_inside(target.host):
            raise SourceUnavailable(f"{self.label} redirects to {target.host} inside this network.")
        self._parse(str(target))

    def _unavailable(self, error: Exception) -> SourceUnavailable:
        reason = str(error) or type(error).__name__
        if isinstance(error, _ConnectionLost):
            return SourceUnavailable(f"{reason}.")
        return SourceUnavailable(f"{self.label} cannot be reached: {reason}.")


def _length_from(response: httpx.Response, partial: PartialFile) -> int | None:
    """The total of a partial response, which must begin where `partial` ends."""
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != partial.size:
        partial.restart()
        raise _ConnectionLost("The server answers with another range than it was asked for")
    return None if match[2] == "*" else int(match[2])


def _phrase(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}".strip()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_inside(host: str) -> bool:
    """True where any address of the host is private to this machine or its network."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False  # behind a proxy names need not resolve here; connecting will tell
    return any(not ipaddress.ip_address(text.partition("%")[0]).is_global for text in found)


def _wait(seconds: float, cancelled: Cancelled) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        raise_if_cancelled(cancelled)
        time.sleep(min(left, 0.1))
