"""Detects keys and tokens by their vendors' formats, and private keys in their usual containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.text_index import long_words
from ..finding import FindingKind, SensitiveFinding
from .token_formats import token_shapes

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
_JWK = re.compile(r"\"(?:d|p|q|dp|dq|qi|k)\"\s{0,4}:\s{0,4}\"([\w-]{32,1400})\"")
_WIREGUARD = re.compile(r"(?:PrivateKey|PresharedKey)\s{0,4}=\s{0,4}([A-Za-z0-9+/]{43}=)")
_RAW_OPENSSH = "b3BlbnNzaC1rZXktdjE"
_AWS_SECRET = re.compile(r"[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])(?<![A-Za-z0-9+/]{41})")
_LEAST = 14  # no token is shorter
_DUMMY = re.compile(r"(?:[xX*.•…]{6,}|0{12,}|YOUR|your[_-]|example_?key|<)")


class TokenDetector:
    """Finds keys and tokens with a vendor's prefix."""

    name = "tokens"

    def __init__(self) -> None:
        self._shapes = token_shapes()

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """See `Detector`."""
        words = [text[start:end] for start, end in long_words(text) if end - start >= _LEAST]
        long = "\n".join(words)
        for piece, pattern, kind in self._shapes:
            if piece not in long:
                continue
            for match in pattern.finditer(text):
                if _begins(text, match.start()) and not _DUMMY.search(match[0]):
                    yield self._finding(kind, match.start(), match.end(), match[0])
        place = max(text.find("AKIA"), text.find("ASIA"))
        if place >= 0:
            yield from self._secrets_near(text, place)

    def _secrets_near(self, text: str, place: int) -> Iterator[SensitiveFinding]:
        """Yield secret AWS keys, which have no format of their own, but occur near the key id."""
        for match in _AWS_SECRET.finditer(text, max(0, place - 200), place + 300):
            kinds = (str.isdigit, str.isupper, str.islower)
            if all(any(map(kind, match[0])) for kind in kinds):
                yield self._finding(FindingKind.API_KEY, match.start(), match.end(), match[0])

    def _finding(self, kind: FindingKind, start: int, end: int, value: str) -> SensitiveFinding:
        return SensitiveFinding(kind=kind, start=start, end=end, value=value, detector=self.name)


class PrivateKeyDetector:
    """Finds PEM, OpenSSH, PGP, PuTTY, age, JSON web keys and WireGuard keys."""

    name = "private_keys"

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """See `Detector`."""
        if "----" in text or "PuTTY" in text:
            place = 0
            while (begin := _BLOCKS.search(text, place)) is not None:
                end = _BLOCK_ENDS.search(text, begin.end())
                place = end.end() if end else len(text)
                yield self._finding(text, begin.start(), place)
        if '"kty"' in text:
            for match in _JWK.finditer(text):
                yield self._finding(text, *match.span(1))
        if "Key" in text:
            for match in _WIREGUARD.finditer(text):
                yield self._finding(text, *match.span(1))
        place = text.find(_RAW_OPENSSH)
        if place >= 0:
            yield self._finding(text, place, len(text))

    def _finding(self, text: str, start: int, end: int) -> SensitiveFinding:
        return SensitiveFinding(
            kind=FindingKind.PRIVATE_KEY,
            start=start,
            end=end,
            value=text[start:end],
            detector=self.name,
        )


def _begins(text: str, start: int) -> bool:
    """Whether a token can begin here: after `=`, a quote or a space, but not inside a word."""
    return start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "_-.")
