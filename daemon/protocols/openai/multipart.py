"""Reads multipart forms with a file, which is written to its place as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from starlette.requests import Request

from ...errors import InvalidBody
from ...http.bodies import read_chunks

MAX_FIELDS = 32
MAX_FIELD_BYTES = 64 * 2**10
_LONGEST_NAME = 200


class FormFile(Protocol):
    """Takes the content of a form's file."""

    def write(self, data: bytes, /) -> object:
        """Append."""

    def discard(self) -> None:
        """Forget it."""


F = TypeVar("F", bound=FormFile)


@dataclass
class MultipartForm(Generic[F]):
    """The fields of a form, and its one file with the name given by the client.

    The values of a field whose name ends in `[]` are joined by commas.
    """

    fields: dict[str, str] = field(default_factory=dict[str, str])
    filename: str = ""
    file: F | None = None


async def read_form(request: Request, limit: int, open_file: Callable[[], F]) -> MultipartForm[F]:
    """The form in a body of at most `limit` bytes; raises `InvalidBody` and what a body may raise.

    `open_file` is called for the part named `file`; blocking calls are made in threads. The file
    is discarded if the form is invalid.
    """
    from python_multipart.exceptions import MultipartParseError

    reader = _FormReader(request.headers.get("content-type", ""), open_file)
    try:
        async for chunk in read_chunks(request, limit, setting="max_upload_bytes"):
            await asyncio.to_thread(reader.write, chunk)
        reader.end()
    except BaseException as error:
        if reader.form.file is not None:
            reader.form.file.discard()
        if not isinstance(error, MultipartParseError):
            raise
        raise InvalidBody(
            "The body is not a form: its parts cannot be told apart.",
            hint="Send multipart/form-data.",
        ) from error
    return reader.form


class _FormReader(Generic[F]):
    """The parser's callbacks."""

    def __init__(self, content_type: str, open_file: Callable[[], F]) -> None:
        from python_multipart.multipart import MultipartParser, parse_options_header

        media_type, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if media_type != b"multipart/form-data" or not boundary:
            raise InvalidBody(
                "The body must be a form.",
                hint="Send multipart/form-data with the field `file`.",
            )
        self.form = MultipartForm[F]()
        self._parts = 0
        self._open_file = open_file
        self._parse_options = parse_options_header
        self._headers: dict[bytes, bytes] = {}
        self._header = b""
        self._value = b""
        self._name = ""
        self._content = bytearray()
        self._to_file = False
        self._complete = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_header,
                "on_header_value": self._add_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_content,
                "on_part_data": self._add_content,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )

    def write(self, data: bytes) -> None:
        """Parse a chunk of the body."""
        self._parser.write(data)

    def end(self) -> None:
        """Note the end of the body; raises `InvalidBody` if the form is incomplete."""
        self._parser.finalize()
        if not self._complete:
            raise InvalidBody("The form breaks off.", hint="Send it again.")

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_FIELDS:
            raise InvalidBody(f"The form has more than {MAX_FIELDS} fields.")
        self._headers = {}
        self._content = bytearray()
        self._to_file = False

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _begin_content(self) -> None:
        _, options = self._parse_options(self._headers.get(b"content-disposition", b""))
        self._name = options.get(b"name", b"").decode(errors="replace")
        if self._name != "file":
            return
        if self.form.file is not None:
            raise InvalidBody("The form has two files.", hint="Send one at a time.", param="file")
        self.form.filename = options.get(b"filename", b"").decode(errors="replace")[:_LONGEST_NAME]
        self.form.file = self._open_file()
        self._to_file = True

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        if self._to_file and self.form.file is not None:
            self.form.file.write(data[start:end])
            return
        self._content += data[start:end]
        if len(self._content) > MAX_FIELD_BYTES:
            name = self._name[:100]
            raise InvalidBody(f"'{name}' is longer than {MAX_FIELD_BYTES} bytes.", param=name)

    def _end_part(self) -> None:
        if not self._to_file:
            value, fields = self._content.decode(errors="replace"), self.form.fields
            if self._name.endswith("[]") and self._name in fields:
                value = f"{fields[self._name]},{value}"
            fields[self._name] = value

    def _end(self) -> None:
        self._complete = True
