"""Bounds the JSON of a body before it is decoded, and checks that it is UTF-8."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

from ..errors import InvalidBody

MOST_FIELDS = 2**18
"""Fields, objects and lists of one body; a million take a second to decode."""
MOST_ITEMS = 2**20
"""Commas between values of one body."""

_SLICE = 2**18
"""Bytes that are looked at in one go, since no other thread runs meanwhile."""

_NO_ESCAPE = re.compile(rb"[^\\]")

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\\\"  # so that the letters behind an escaped backslash are no escape
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def check_body(body: bytes) -> None:
    """Raise `InvalidBody` for a body that would take too long to decode, or that is not UTF-8.

    msgspec validates only the strings that it keeps, but the whole body must be UTF-8.
    """
    if not body.isascii():
        _check_text(body)
    if len(body) > MOST_FIELDS:
        _check_structure(body)


def without_lone_surrogates(body: bytes) -> bytes:
    """The body with U+FFFD for each half of a surrogate pair.

    JavaScript sends such halves when a text was cut in the middle of an emoji; the rest counts.
    """
    if _SURROGATE.search(body) is None:
        return body
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], body)


def _check_text(body: bytes) -> None:
    decoder = getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _SLICE):
            decoder.decode(body[start : start + _SLICE], final=start + _SLICE >= len(body))
    except UnicodeDecodeError as error:
        raise InvalidBody("The body is not UTF-8.", hint="Send JSON as UTF-8.") from error


def _check_structure(body: bytes) -> None:
    fields = items = start = 0
    in_string = False
    while start < len(body):
        end = _slice_end(body, start)
        marks, in_string = _outside_strings(body[start:end], in_string)
        fields += marks.count(b":") + marks.count(b"{") + marks.count(b"[")
        items += marks.count(b",")
        if fields > MOST_FIELDS:
            _refuse(f"{MOST_FIELDS:,} fields, objects and lists")
        if items > MOST_ITEMS:
            _refuse(f"{MOST_ITEMS:,} values")
        start = end


def _slice_end(body: bytes, start: int) -> int:
    """The end of the slice from `start`, behind an escape that would be cut."""
    following = _NO_ESCAPE.search(body, start + _SLICE - 1)
    return following.end() if following is not None else len(body)


def _outside_strings(part: bytes, in_string: bool) -> tuple[bytes, bool]:
    """What is not in strings, and whether the part ends in one; it may begin in one, too."""
    pieces = part.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    return b"".join(pieces[in_string::2]), in_string ^ (len(pieces) % 2 == 0)


def _refuse(most: str) -> None:
    raise InvalidBody(f"The body has more than {most}.", hint="Send fewer of them.")
