"""Placeholders for values in outgoing text: `[EMAIL_1]` for the first address, and so on."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..detectors.finding import FindingKind
from ..text_analysis.text_index import lowered

LITERAL = "TEXT"
"""Replaces text that already looked like a placeholder."""

_LABELS: Mapping[str, str] = {
    kind.value: {
        FindingKind.STREET_ADDRESS: "ADDRESS",
        FindingKind.BANK_ACCOUNT: "ACCOUNT",
    }.get(kind, kind.upper())
    for kind in FindingKind
} | {LITERAL: LITERAL}
"""The label of each kind, and of text that is no finding."""

_TRANSLATIONS = {
    "PERSON": "PERSONA PERSONNE PESSOA PERSOON OSOBA ПЕРСОНА ЧЕЛОВЕК 人物 人员 사람 व्यक्ति شخص",
    "ADDRESS": "ADRESSE DIRECCIÓN DIRECCION INDIRIZZO ENDEREÇO ENDERECO ADRES АДРЕС 地址 住所 주소",
    "ACCOUNT": "KONTO COMPTE CUENTA CONTO CONTA REKENING СЧЁТ СЧЕТ 账户 帐户 口座 계좌",
    "PHONE": "TELEFON TÉLÉPHONE TELEPHONE TELÉFONO TELEFONO TELEFONE TELEFOON ТЕЛЕФОН 电话 電話",
    "EMAIL": "MAIL COURRIEL CORREO ПОЧТА 邮箱 电子邮件 メール 이메일",
    "ORGANISATION": "ORGANIZATION ORGANIZACIÓN ORGANIZAÇÃO ORGANIZZAZIONE ОРГАНИЗАЦИЯ 组织",
    "DATE_OF_BIRTH": "GEBURTSDATUM BIRTHDATE DATE_DE_NAISSANCE FECHA_DE_NACIMIENTO 出生日期",
    "CARD": "KARTE CARTE TARJETA CARTÃO КАРТА 卡 カード",
    "PASSWORD": "PASSWORT MOT_DE_PASSE CONTRASEÑA SENHA ПАРОЛЬ 密码 パスワード",
}
"""What models make of the labels in an answer in another language."""

_ALIASES = {label.replace("_", ""): label for label in _LABELS.values()} | {
    alias.replace("_", ""): label
    for label, aliases in _TRANSLATIONS.items()
    for alias in aliases.split()
}

_ESCAPE = r"\\{0,2}"
# Scripts without blanks between words have no boundaries of words either.
UNSPACED = "\u0e00-\u0eff\u2e80-\U0010ffff"
_START, _END = rf"(?<![^\W{UNSPACED}])", rf"(?![^\W{UNSPACED}])"


def _one_of(labels: list[str], separator: str) -> str:
    longest_first = sorted(labels, key=len, reverse=True)
    return "|".join(separator.join(label.split("_")) for label in longest_first)


_STRICT = _one_of(list(_LABELS.values()), rf"{_ESCAPE}_")
_LOOSE = _one_of(
    [*_LABELS.values(), *" ".join(_TRANSLATIONS.values()).split()], rf"(?:{_ESCAPE}_|[ -])"
)
_PLAIN = rf"(?P<label>{_STRICT}){_ESCAPE}_(?P<number>[0-9]{{1,6}})(?P<variant>[B-Z]?)"

LOOKALIKE = re.compile(
    rf"(?P<escape>{_ESCAPE})[\[［【](?P<loose>{_LOOSE})(?:{_ESCAPE}_|[ -])?"
    rf"(?P<counted>[0-9]{{1,6}})(?P<lettered>[B-Z]?)(?P<tail>['’]\w{{1,3}})?"
    rf"(?P<close>{_ESCAPE}[\]］】])"
    rf"|(?P<open>\[)?(?:(?<=\[)|{_START}){_PLAIN}{_END}(?P<shut>{_ESCAPE}\])?",
    re.IGNORECASE,
)
"""A placeholder as models write it: in any case, translated, with a genitive, escaped for Markdown,
without brackets.
"""

ANYWHERE = re.compile(rf"\[?{_PLAIN}(?:{_ESCAPE}\])?", re.IGNORECASE)
"""What would be one if it stood alone."""

LONGEST = max(map(len, _ALIASES)) + 30
"""Upper limit of the characters of any spelling of a placeholder."""

MOST_CONVERSATIONS = 256
MOST_VALUES = 10_000
_JSON_ESCAPE = re.compile(r"\\(?:([bfnrt])|.)")
_NAME_WORD = re.compile(r"\w[\w'’-]+\w")


class TooManyValues(ValueError):
    """A conversation has too many values to replace."""


class Original(NamedTuple):
    """A text that a placeholder replaces; a `verbatim` one is never escaped for where it stands."""

    text: str
    verbatim: bool = False


class _Known(NamedTuple):
    kind: str
    value: str
    is_name: bool


class PlaceholderMemory:
    """The placeholders of one conversation, one for each spelling of a value: `[PERSON_1]` for
    Anna and `[PERSON_1B]` for ANNA.

    Kept in memory only.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while one request is redacted."""
        self._names: dict[Original, str] = {}
        self._originals: dict[str, Original] = {}
        self._kinds: dict[str, str] = {}
        self._bases: dict[tuple[str, str], str] = {}
        self._spellings: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._known: dict[str, _Known] = {}

    def learn(self, kind: str, value: str, text: str) -> None:
        """Remember a value to be replaced wherever it occurs; `text` is the value as written.

        Raises `TooManyValues`.
        """
        if not any(map(str.isalnum, text)):
            return
        if len(self._known) >= MOST_VALUES:
            raise TooManyValues
        self._known[lowered(text)] = _Known(kind, value, is_name=False)
        words = _NAME_WORD.findall(text) if kind == FindingKind.PERSON else []
        for word in words if len(words) > 1 else ():
            before = self._known.get(lowered(word))
            if before is None or before.is_name:
                # A name that two persons share is neither's.
                owner = value if before is None or before.value == value else word
                self._known[lowered(word)] = _Known(kind, owner, is_name=True)

    def name(self, kind: str, value: str, original: Original) -> str:
        """Return the placeholder without its brackets; raises `TooManyValues`."""
        if original not in self._names:
            if len(self._names) >= MOST_VALUES:
                raise TooManyValues
            label = _LABELS[kind]
            key = (label, "".join(filter(str.isalnum, value.casefold())) or value)
            base = self._bases.get(key)
            spelling = self._spellings[base] if base is not None else 0
            if base is None or spelling >= 26:
                self._numbers[label] += 1
                base, spelling = f"{label}_{self._numbers[label]}", 0
                self._bases[key] = base
            self._spellings[base] = spelling + 1
            name = base + (chr(ord("A") + spelling) if spelling else "")
            self._names[original], self._originals[name] = name, original
            self._kinds[name] = kind
        return self._names[original]

    def original(self, name: str) -> Original:
        """Return what a placeholder replaces."""
        return self._originals[name]

    def kind(self, name: str) -> str:
        """Return the kind of a placeholder's value, or `LITERAL`."""
        return self._kinds[name]

    def occurrences(self, text: str, *, is_json: bool) -> Iterator[tuple[int, int, str, str]]:
        """Yield where known values occur as whole words in any case: (start, end, kind, value).

        A restored answer contains them in places that no detector would find.
        """
        lower = _without_breaks(lowered(text)) if is_json else lowered(text)
        for written, (kind, value, is_name) in self._known.items():
            forms = {written}
            if is_json:
                escaped = (json.dumps(written, ensure_ascii=each)[1:-1] for each in (False, True))
                forms = set(map(_without_breaks, escaped))
            for form in forms:
                endings = ("", "s") if kind == FindingKind.PERSON else ("",)
                for start in _places(lower, form, endings) if len(form) > 1 else ():
                    if not is_name or text[start].isupper():
                        yield start, start + len(form), kind, value


class PlaceholderMemories:
    """The memories of the most recently used conversations."""

    def __init__(self) -> None:
        self._memories: OrderedDict[str, PlaceholderMemory] = OrderedDict()

    def of(self, conversation: str) -> PlaceholderMemory:
        """Return that of a conversation; always a new one without a name."""
        if not conversation:
            return PlaceholderMemory()
        memory = self._memories.setdefault(conversation, PlaceholderMemory())
        self._memories.move_to_end(conversation)
        while len(self._memories) > MOST_CONVERSATIONS:
            self._memories.popitem(last=False)
        return memory


def canonical(match: re.Match[str]) -> tuple[str, str]:
    """Return the placeholder's name for any of its spellings, and the letter that ends it."""
    label = squeezed(match["label"] or match["loose"])
    number = int(match["number"] or match["counted"])
    letter = match["variant"] or match["lettered"] or ""
    return f"{_ALIASES.get(label, label)}_{number}", letter


def squeezed(text: str, separators: str = "\\_ -") -> str:
    """Return the text in upper case without separators."""
    return "".join(c for c in text if c not in separators).upper()


def spellings(name: str) -> Iterator[str]:
    """Yield a placeholder's name in all languages, squeezed."""
    label, _, number = name.rpartition("_")
    for alias, known in _ALIASES.items():
        if known == label:
            yield alias + number


def _without_breaks(text: str) -> str:
    """Return JSON with blanks for escaped white space, whose letters would join the next word."""
    return _JSON_ESCAPE.sub(lambda match: "  " if match[1] else match[0], text)


def _places(text: str, word: str, endings: Sequence[str]) -> Iterator[int]:
    """Yield where a word starts that stands alone or has one of the endings."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        begins = not (start and _joins(text[start - 1]) and _joins(word[0]))
        if begins and any(
            text.startswith(ending, end) and not _goes_on(text, end + len(ending))
            for ending in endings
        ):
            yield start
        start = text.find(word, start + 1)


def _goes_on(text: str, end: int) -> bool:
    return end < len(text) and _joins(text[end - 1]) and _joins(text[end])


_JOINS = re.compile(rf"[^\W{UNSPACED}]")


def _joins(character: str) -> bool:
    """Whether it makes one word with the same kind of character beside it."""
    return _JOINS.match(character) is not None
