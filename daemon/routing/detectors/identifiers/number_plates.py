"""Detects vehicle number plates: after a word for them, or in a national format near a vehicle."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.text_index import digit_runs
from ..context_words import Phrases, windows
from ..finding import FindingKind, SensitiveFinding

_WORDS = Phrases((
    "plate", "plates", "reg no", "reg. no", "regno", "reg number", "vehicle reg", "rego",
    "registration no", "registration mark", "immatriculée", "immatriculé", "immatriculation",
    "plaque", "kontrollschild", "kontrollschilder", "autokennzeichen", "autonummer", "kennzeichen",
    "nummernschild", "plakası", "plaka", "plakam", "госномер", "гос. номер", "госзнак",
    "номер авто", "номер машины", "номерной знак", "номерний знак", "numer rejestracyjny",
    "nr rejestracyjny", "numery rejestracyjne", "moja rejestracja",
    "nr rej.", "tablice rejestracyjne", "registreringsnummer", "regnr",
    "reg.nr", "registreringsskilt", "nummerplade", "nummerplaat", "kentekenplaat", "kenteken",
    "rekisterinumero", "rekisteritunnus", "rekkari", "rendszám", "rendszáma", "spz",
    "státní poznávací značka",
    "registarska oznaka", "registrske tablice", "număr de înmatriculare", "nr. înmatriculare",
    "număr înmatriculare", "biển số", "plat nomor", "nomor polisi", "nopol", "no. polisi",
    "no plat", "nombor plat", "ナンバープレート", "车牌", "车牌号", "車牌", "차량번호", "번호판",
    "targata", "targato", "πινακίδα",
    "αριθμός κυκλοφορίας", "ทะเบียนรถ", "מספר רישוי", "رقم اللوحة", "لوحة",
    "numéro d'immatriculation",
), whole=True)  # fmt: skip
_BEHIND = re.compile(
    r"(?:[-_ ]?(?i:no|nr|num|number|nummer|numer|№|#|номер|번호"
    r"|号))?[.:]{0,2}[\"'`*]{0,3}[^\S\n]{0,3}[:=#|]?[^\S\n]{0,3}"
    r"(?:(?:is|was|ist|est|es|è|é|to|jest|är|er|reads|of)[^\S\n])?[\"'`*]{0,3}"
    r"(?P<value>(?=[A-ZА-ЯÄÖÜ0-9 ·-]{0,9}\d)[A-ZА-ЯÄÖÜ0-9]{1,8}"
    r"(?:[ ·-]{1,3}[A-ZА-Я0-9]{1,7}){0,3})(?![\w%])"
)
_VEHICLES = Phrases((
    "vehicle", "car", "van", "truck", "lorry", "motorbike", "motorcycle", "parked", "parking",
    "dvla", "pcn", "penalty charge", "v5c", "mot", "taxi", "registered keeper", "fahrzeug",
    "halter", "pkw", "lkw", "auto", "wagen", "voiture", "véhicule", "camion", "coche", "vehículo",
    "carro", "veículo", "macchina", "veicolo", "bil", "bilen", "samochód", "pojazd", "araç",
    "машина", "авто", "автомобиль", "challan", "fastag", "toll", "bike", "scooter",
), whole=True)  # fmt: skip
_AROUND = 50
# France and Italy, the United Kingdom, India, California and Russia.
_FORMS = re.compile(
    r"(?<![\w-])(?:[A-Z]{2}-\d{3}-[A-Z]{2}|[A-HJ-NPR-Z]{2}\d{3}[A-Z]{2}|[A-Z]{2}\d{2} ?[A-Z]{3}"
    r"|[A-Z]{2}[ -]?\d{2}[ -]?[A-Z]{1,3}[ -]?\d{4}|\d[A-Z]{3}\d{3}"
    r"|[АВЕКМНОРСТУХ]\d{3}[АВЕКМНОРСТУХ]{2} ?\d{2,3})(?![\w-])"
)
_LEAST, _MOST = 4, 10


class PlateDetector:
    """Finds plates, most of which are too short to be distinguished from other codes by
    themselves.
    """

    name = "plates"

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """See `Detector`."""
        if not digit_runs(text):
            return
        for end in _WORDS.ends(text):
            match = _BEHIND.match(text, end)
            if match is not None and _is_plate(match["value"]):
                yield self._finding(match, "value")
        near = sorted((end, end) for end in _VEHICLES.ends(text))
        for start, stop in windows(near, _AROUND, len(text)):
            for match in _FORMS.finditer(text, start, stop):
                yield self._finding(match, 0)

    def _finding(self, match: re.Match[str], group: str | int) -> SensitiveFinding:
        start, end = match.span(group)
        plain = "".join(filter(str.isalnum, match[group]))
        return SensitiveFinding(
            kind=FindingKind.VEHICLE, start=start, end=end, value=plain, detector=self.name
        )


def _is_plate(value: str) -> bool:
    """Whether it has letters and digits, and a plausible number of them."""
    plain = "".join(filter(str.isalnum, value))
    mixed = any(map(str.isalpha, plain)) and any(map(str.isdigit, plain))
    return mixed and _LEAST <= len(plain) <= _MOST
