"""Detects keys and tokens by their vendors' formats, and private keys in their usual containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.data_files import read_sections
from ...text_analysis.text_index import Span, long_words
from ..finding import FindingKind, SensitiveFinding

_BLOCKS = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}(?:PRIVATE KEY(?: BLOCK)?|SECRET KEY)-----"
    r"|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
    r"|PuTTY-User-Key-File-\d: "
    r"|-----BEGIN AGE ENCRYPTED FILE-----"
)
_BLOCK_ENDS = re.compile(
    r"-----END (?:[A-Z0-9]{1,12} ){0,3}(?:PRIVATE KEY(?: BLOCK)?|SECRET KEY)-----"
    r"|---- END SSH2 (?:ENCRYPTED )?PRIVATE KEY ----|Private-MAC: [0-9a-f]{32,64}"
    r"|-----END AGE ENCRYPTED FILE-----"
)
# As documentation shows a key: `XXXX`, dots or `[your key]` in place of its letters.
_EMPTY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]+-----(?:(?:\\[nr]|[\s.…xX*]|\[[^\]\n]*\])*-----END [A-Z ]+-----\Z"
    r"|(?:\\n)?\s?(?:\.{3}|…)[^\w\s])"
)
_JWK = re.compile(r"\"(?:d|p|q|dp|dq|qi|k)\"\s{0,4}:\s{0,4}\"([\w-]{32,1400})\"")
_KUBECONFIG = re.compile(r"client-key-data:\s{0,4}\"?([A-Za-z0-9+/]{40,}={0,2})")
_WIREGUARD = re.compile(r"(?:PrivateKey|PresharedKey)\s{0,4}=\s{0,4}([A-Za-z0-9+/]{43}=)")
_RAW_OPENSSH = "b3BlbnNzaC1rZXktdjE"
_AWS_SECRET = re.compile(r"[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])(?<![A-Za-z0-9+/]{41})")
_LEAST = 14  # no token is shorter
_DUMMY = re.compile(r"(?:[xX*.•…]{6,}|0{12,}|=%[ds]|YOUR|your[_-]|example_?key|<)")


def _formats() -> Iterator[tuple[str, re.Pattern[str], FindingKind]]:
    """Yield a text that every match contains, the pattern, and the kind of each token format."""
    for kind, lines in read_sections("token_formats.txt").items():
        for line in lines:
            piece, pattern = line.split("  # ")[0].split()
            pattern = pattern.replace("@", re.escape(piece))
            # The literal comes first, and no look-behind: a search for a literal is many times
            # faster than one that begins with a condition.
            yield piece, re.compile(f"(?:{pattern})(?![A-Za-z0-9])"), FindingKind(kind)


_FORMATS = tuple(_formats())


def find_tokens(text: str) -> Iterator[SensitiveFinding]:
    """Yield keys and tokens with a vendor's prefix."""
    words = [text[start:end] for start, end in long_words(text) if end - start >= _LEAST]
    long = "\n".join(words)
    for piece, pattern, kind in _FORMATS:
        if piece not in long:
            continue
        for match in pattern.finditer(text):
            if _begins(text, match.start()) and not _DUMMY.search(match[0]):
                yield SensitiveFinding(kind, *match.span(), match[0])
    place = max(text.find("AKIA"), text.find("ASIA"))
    if place < 0:
        return
    # Secret AWS keys have no format of their own, but occur near the key id.
    for match in _AWS_SECRET.finditer(text, max(0, place - 200), place + 300):
        if all(any(map(kind, match[0])) for kind in (str.isdigit, str.isupper, str.islower)):
            yield SensitiveFinding(FindingKind.API_KEY, *match.span(), match[0])


def find_private_keys(text: str) -> Iterator[SensitiveFinding]:
    """Yield PEM, OpenSSH, PGP, PuTTY, age, JSON web keys, and keys of WireGuard and kubeconfigs."""
    for start, end in _private_keys(text):
        if not _EMPTY_BLOCK.match(text, start, end):
            yield SensitiveFinding(FindingKind.PRIVATE_KEY, start, end, text[start:end])


def _private_keys(text: str) -> Iterator[Span]:
    if "----" in text or "PuTTY" in text:
        place = 0
        while (begin := _BLOCKS.search(text, place)) is not None:
            end = _BLOCK_ENDS.search(text, begin.end())
            place = end.end() if end else len(text)
            yield begin.start(), place
    patterns = (('"kty"', _JWK), ("Key", _WIREGUARD), ("client-key-data", _KUBECONFIG))
    for word, pattern in patterns:
        if word in text:
            yield from (match.span(1) for match in pattern.finditer(text))
    place = text.find(_RAW_OPENSSH)
    if place >= 0:
        yield place, len(text)


def _begins(text: str, start: int) -> bool:
    """Whether a token can begin here: after `=`, a quote or a space, also one that is escaped, but
    not inside a word.
    """
    before = text[start - 1 : start]
    if before in ("n", "r", "t") and text[start - 2 : start - 1] == "\\":
        return True
    return not (before.isalnum() or before in ("_", "-", "."))
