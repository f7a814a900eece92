"""Detects national ids, tax numbers and vehicles by shape and check digit."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from ...text_analysis.text_index import Span
from ..context_words import ContextWords
from ..finding import FindingKind, SensitiveFinding
from .national_id_rules import RULES, NationalIdRule, is_vin

_PIECE = re.compile(r"[A-Za-z0-9]+")
_REGION = re.compile(r"[0-9](?:[A-Za-z0-9]|[ .\-/–(\u00a0]{1,3}(?=[A-Z0-9])){3,}+")
_GAPS = frozenset({" ", "-", ".", "/", "–", "(", " - ", "\u00a0"})
_SHAPE = str.maketrans(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "9" * 10 + "A" * 52
)
_MOST_PIECES = 8
_LEAST, _MOST, _VIN = 8, 18, 17
_WORDS = ContextWords(
    "id_number identity identification identität* ausweis* identité identidad "
    "identidade identità identiteit* national citizen ssn social_security social_insurance "
    "sin nino ni national_insurance nhs steuer* idnr tin tax taxpayer fiscal* fiskal* "
    "impôt* imposta dni nie nif nir insee sécurité_sociale sécu seguridad_social "
    "codice_fiscale bsn burgerservice* sofi* rijksregister* registre_national niss pesel "
    "personnummer personal_number cpr fødselsnummer personnr henkilötunnus hetu svnr "
    "sozialversicherung* ahv avs cpf cnpj rg contribuinte aadhaar aadhar uidai pan "
    "my_number mynumber マイナンバー 個人番号 身份证* 身分證* 주민등록* tfn medicare ihi "
    "kimlik* tckn cnp egn егн oib jmbg isikukood asmens personas_kods pps ppsn rut cuit "
    "cuil rfc curp снилс snils инн inn teudat mispar nric hkid mykad ktp nik cccd "
    "rodné* rodne* személyi* adószám* afm αφμ amka αμκα patient* resident* registration "
    "social versicherungs* insurance gesundheit* health patient* mrn dowod* numer cédula "
    "cedula documento",
    before=60,
    after=24,
)
_OF_GOODS = re.compile(r"\b(?:isbn|issn|ean|gtin|upc)\b", re.IGNORECASE)
# These are so specific that they count from a distance.
_CLEAR_WORDS = ContextWords(
    "ssn social_security national_insurance nino nhs aadhaar aadhar pesel personnummer "
    "burgerservicenummer steueridentifikationsnummer sozialversicherungsnummer cpf curp",
    before=120,
    after=0,
)


class IdentityDetector:
    """Finds numbers with a layout or a check digit of their own; most need a nearby word."""

    name = "identities"

    def __init__(self) -> None:
        self._rules: dict[str, list[NationalIdRule]] = {}
        for rule in RULES:
            self._rules.setdefault(rule.shape, []).append(rule)

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """See `Detector`."""
        done = 0
        for region in _REGION.finditer(text):
            start = _left(text, region.start(), done)
            if region.end() - start < _LEAST:
                continue
            row: list[Span] = []
            for piece in _PIECE.finditer(text, start, region.end()):
                if row and text[row[-1][1] : piece.start()] not in _GAPS:
                    yield from self._in_row(text, row)
                    row = []
                row.append(piece.span())
            yield from self._in_row(text, row)
            done = region.end()

    def _in_row(self, text: str, row: list[Span]) -> Iterator[SensitiveFinding]:
        """Try every run of adjacent pieces, the longest first."""
        plain = "".join([text[start:end] for start, end in row])
        if len(plain) < _LEAST:
            return
        shape = plain.translate(_SHAPE)
        places = [0, *accumulate(end - start for start, end in row)]
        # Search for words once per row, since a table has many numbers and no words.
        said = functools.cache(lambda: _is_said(text, row[0][0], row[-1][1]))
        first = 0
        while first < len(row):
            begin, taken = places[first], 1
            for last in range(min(first + _MOST_PIECES, len(row)), first, -1):
                stop = places[last]
                if not _LEAST <= stop - begin <= _MOST:
                    continue
                rules = self._rules.get(shape[begin:stop], ())
                if not rules and stop - begin != _VIN:
                    continue
                span = row[first][0], row[last - 1][1]
                finding = self._as_id(text, span, plain[begin:stop].upper(), rules, said)
                if finding is not None:
                    yield finding
                    taken = last - first
                    break
            first += taken

    def _as_id(
        self,
        text: str,
        span: Span,
        plain: str,
        rules: Sequence[NationalIdRule],
        said: Callable[[], bool],
    ) -> SensitiveFinding | None:
        start, end = span
        if (
            len(plain) == _VIN and plain[:2] != "1Z" and is_vin(plain)
        ):  # the prefix of a parcel number
            return self._finding(FindingKind.VEHICLE, start, end, plain)
        if not rules or not _stands_alone(text, start, end):
            return None
        raw = text[start:end]
        layout = raw.translate(_SHAPE)
        if text[end : end + 1] == ")" and "(" in layout:
            layout += ")"
        for rule in rules:
            own = layout in rule.layouts or ("*" in rule.layouts and raw.upper() == raw)
            if not (own or said()) or not rule.check(plain):
                continue
            if _OF_GOODS.search(text, max(0, start - 12), start):
                return None
            if own or _WORDS.near(text, start, end) or _CLEAR_WORDS.before(text, start):
                return self._finding(rule.kind, start, end, plain)
        return None

    def _finding(self, kind: FindingKind, start: int, end: int, value: str) -> SensitiveFinding:
        return SensitiveFinding(kind=kind, start=start, end=end, value=value, detector=self.name)


def _is_said(text: str, start: int, end: int) -> bool:
    return _WORDS.around(text, start, end) or _CLEAR_WORDS.before(text, start)


def _left(text: str, start: int, least: int) -> int:
    """Return where the letters before the first digit of an id begin."""
    least = max(least, start - 8)
    while start > least and (
        text[start - 1].isalnum() or (text[start - 1] in " -" and text[start - 2].isupper())
    ):
        start -= 1
    return start


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether it is not part of a longer number or name."""
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    if before[-1:] in ("_", "+", "$", "€", "£") or behind[:1] in ("_", "%"):
        return False
    joined = (".", ",", "-", "/", ":")
    if len(before) == 2 and before[1] in joined and before[0].isdigit():
        return False
    return not (len(behind) == 2 and behind[0] in joined and behind[1].isdigit())
