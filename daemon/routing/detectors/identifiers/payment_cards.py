"""Detects payment cards by issuer prefixes, lengths and the check digit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.checksums import luhn
from ...text_analysis.data_files import read_sections
from ...text_analysis.text_index import digits_together
from ..context_words import ContextWords, Phrases
from ..finding import FindingKind, SensitiveFinding

_RUN = re.compile(r"[0-9]++(?:[ .\-–/_]{1,2}[0-9]++){0,23}+")
_GROUP = re.compile(r"[0-9]+")
_ISSUERS = [
    (low, high, frozenset(map(int, sizes)))
    for line in read_sections("card_issuers.txt")["issuers"]
    for low, high, *sizes in [line.split("  # ")[0].split()]
]
# Maestro has nearly every length, and old Visa cards had 13: only near words for cards.
_RARE_ISSUERS = re.compile(r"4|5[06-9]|6|1|2014|2149")
_FOURS = (4, 4, 4, 4)  # so clearly a card that any issuer counts
_GROUPINGS = frozenset(
    {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (6, 13), (8, 8), (4, 4, 4, 4, 2)}
    | {(4, 4, 4, 4, 1), (4, 4, 4, 1), (4, 4, 5), (4, 12), (4, 4, 4, 3), (4, 4, 4, 2), (6, 10)}
)
_CARD_WORDS = ContextWords("cards", before=60, after=40)
_CODE_WORDS = Phrases("card codes")
# These words have many other meanings, but not after a card number.
_SOFT_CODE_WORDS = Phrases("card codes after a card", whole=True)
_NEAR_A_CARD = 120
_NO_SPACES = 0x0E00  # Thai, Chinese, Japanese, Korean and similar scripts
_LEAST_DIGITS, _FEW, _MANY = 12, 6, 8
_FRACTION = re.compile(r"\d\.\d+|.{2}\d+\*{1,2}\w")
_CODE = re.compile(
    r"2?(?: (?:code|is|number|ist|est|es|è|é|number is|code "
    r"is))?[\s:=#\"'()-]{1,6}([0-9]{3,4})(?![0-9A-Za-z])"
)


def find_payment_cards(text: str) -> Iterator[SensitiveFinding]:
    """Yield card numbers in any common grouping, and the security code near its name."""
    runs = _RUN.finditer(text) if digits_together(text) >= _LEAST_DIGITS else ()
    last: list[int] = []
    for run in runs:
        if run.end() - run.start() >= 13 and _stands_alone(text, run.start(), run.end()):
            for card in _in_run(text, run.start(), run[0]):
                last.append(card.end)
                yield card
    for end in _SOFT_CODE_WORDS.ends(text) if last else ():
        match = _CODE.match(text, end)
        if match and any(0 < end - card <= _NEAR_A_CARD for card in last):
            yield SensitiveFinding(FindingKind.CARD, *match.span(1), match[1])
    for end in _CODE_WORDS.ends(text):
        match = _CODE.match(text, end)
        if match is not None:
            yield SensitiveFinding(FindingKind.CARD, *match.span(1), match[1])


def _in_run(text: str, at: int, run: str) -> Iterator[SensitiveFinding]:
    """Yield the cards in a row of groups of digits."""
    groups = list(_GROUP.finditer(run))
    # Search for words once per row, since a table has many numbers and no words.
    said = len(groups) < _FEW or _CARD_WORDS.around(text, at, at + len(run))
    left = sum(map(str.isdigit, run))
    first = 0
    while left >= _LEAST_DIGITS:
        last = _card_from(text, at, groups, first, said)
        if last is None:
            left -= len(groups[first][0])
            first += 1
            continue
        start, end = groups[first].start(), groups[last].end()
        if not said and len(groups) > _MANY and first < last:
            return  # among so many numbers four may be a card by chance
        if first == last and _FRACTION.match(text, at + start - 2, at + end + 2):
            left -= len(groups[first][0])
            first += 1
            continue
        digits = "".join(group[0] for group in groups[first : last + 1])
        yield SensitiveFinding(FindingKind.CARD, at + start, at + end, digits)
        left -= len(digits)
        first = last + 1


def is_card(digits: str) -> bool:
    """Whether an issuer uses such numbers, and the check digit is valid."""
    if len(set(digits)) < 2:
        return False
    size = len(digits)
    return any(
        low <= digits[: len(low)] <= high and size in sizes for low, high, sizes in _ISSUERS
    ) and luhn(digits)


def _card_from(
    text: str, at: int, groups: list[re.Match[str]], first: int, said: bool
) -> int | None:
    """Return the last group of a card that begins with this one; None for no card.

    Unless words have `said` so, only the groupings of printed cards count.
    """
    digits = ""
    longest = None
    for last in range(first, min(len(groups), first + 19)):
        digits += groups[last][0]
        if len(digits) > 19:
            break
        if len(digits) < _LEAST_DIGITS:
            continue
        sizes = tuple([len(group[0]) for group in groups[first : last + 1]])
        alone = first == 0 and last == len(groups) - 1
        usual = len(sizes) == 1 or sizes in _GROUPINGS or (alone and max(sizes) <= 5)
        if not (usual or said) or not luhn(digits) or len(set(digits)) < 2:
            continue
        if (usual and is_card(digits)) or sizes == _FOURS:
            longest = last
            continue
        if not _RARE_ISSUERS.match(digits) and not is_card(digits):
            continue
        if _CARD_WORDS.near(text, at + groups[first].start(), at + groups[last].end()):
            longest = last
    return longest


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether it is not part of a word, of a hexadecimal number or of a fraction."""
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    if before and (_is_of_a_word(before[-1]) or before[-1] in "_+" or before == "_-"):
        return False
    if behind and (_is_of_a_word(behind[0]) or behind[0] == "_"):
        return False
    return not (len(before) == 2 and before[1] in ".," and before[0].isdigit())


def _is_of_a_word(letter: str) -> bool:
    """Whether a number next to this letter is part of its word; scripts without spaces have no such
    words.
    """
    return letter.isalnum() and ord(letter) < _NO_SPACES
