"""Detects long opaque codes: images, archives and ciphers in text form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..text_analysis.text_index import long_words
from ..views.encoded_text import reads_as
from .finding import FindingKind, SensitiveFinding

_LEAST = 256
_CODE = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-](?:[A-Za-z0-9+/_-]|\r?\n[ "
    r"\t]{0,8}(?=[A-Za-z0-9+/]{40})){255,}+={0,2}"
)
_HEX = re.compile(
    r"(?<![0-9a-fA-F])[0-9a-fA-F](?:[0-9a-fA-F]|\r?\n[ \t]{0,8}(?=[0-9a-fA-F]{32})){511,}+"
)
_DATA = re.compile(r"data:[a-z]{1,20}/[a-z0-9.+-]{1,60};base64,", re.IGNORECASE)
# Blocks that say what they are: certificates and signatures are public, and private keys a finding
# of their own.
_NAMED = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,20}"
    r"(?:CERTIFICATE|SIGNATURE|(?:PUBLIC|PRIVATE) KEY|PARAMETERS)(?: BLOCK| REQUEST)?-----"
)
_HEAD = 128  # characters, as of the lines before a key of PGP
_LEAST_KINDS = 3
# Minimum length of all lines of a code except the first, and of all but the first together.
_LEAST_LINE, _LEAST_LONG = 32, 200
_HEX_LETTERS = frozenset("0123456789abcdef\r\n \t")


def find_opaque_data(text: str) -> Iterator[SensitiveFinding]:
    """Yield Base64 and hexadecimal codes of more than a few lines that do not decode to text."""
    lines = [end - start for start, end in long_words(text) if end - start >= _LEAST_LINE]
    for pattern in (_CODE, _HEX) if sum(lines) >= _LEAST_LONG else ():
        for match in pattern.finditer(text):
            named = _NAMED.search(text, max(0, match.start() - _HEAD), match.start() + 48)
            if named is None and _is_code(match[0]) and reads_as(match[0]) is None:
                yield SensitiveFinding(FindingKind.UNINSPECTABLE, *match.span(), "")
    if "base64," in text:
        for match in _DATA.finditer(text):
            if not match[0].lower().startswith("data:text/"):
                yield SensitiveFinding(FindingKind.UNINSPECTABLE, *match.span(), "")


def _is_code(run: str) -> bool:
    """Whether it has lower- and upper-case letters and digits throughout, unlike names."""
    middle = run[: 4 * _LEAST]
    kinds = (str.isupper, str.islower, str.isdigit)
    few = sum(sum(map(kind, middle)) * 40 >= len(middle) for kind in kinds)
    few_letters = not run.isdigit() and len(set(middle)) > 8
    return few_letters and (few >= _LEAST_KINDS or set(run.lower()) <= _HEX_LETTERS)
