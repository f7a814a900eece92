"""Digits in words, with odd signs between, or with letters in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from .checksums import luhn
from .text_index import Span, digit_runs, vocabulary

_DIGIT_WORDS: dict[str, str] = {
    word: digit
    for digit, words in {
        "0": "zero null nul zéro cero nil nought naught noll sıfır ноль нуль nolla",
        "1": "one eins ein eine un une uno una um uma een één jeden ett en et bir один одна yksi",
        "2": "two zwei zwo deux dos due dois duas twee dwa två to iki два две kaksi",
        "3": "three drei trois tres tre três drie trzy üç три kolme",
        "4": "four vier quatre cuatro quattro quatro cztery fyra fire dört четыре neljä",
        "5": "five fünf fuenf cinq cinco cinque vijf pięć fem beş пять viisi",
        "6": "six sechs seis sei zes sześć sex seks altı шесть kuusi",
        "7": "seven sieben sept siete sette sete zeven siedem sju syv yedi семь seitsemän",
        "8": "eight acht huit ocho otto oito osiem åtta otte sekiz восемь kahdeksan",
        "9": "nine neun neuf nueve nove negen dziewięć nio ni dokuz девять yhdeksän niner",
        "10": "ten", "11": "eleven", "12": "twelve", "13": "thirteen", "14": "fourteen",
        "15": "fifteen", "16": "sixteen", "17": "seventeen", "18": "eighteen", "19": "nineteen",
        "20": "twenty", "30": "thirty", "40": "forty", "50": "fifty", "60": "sixty",
        "70": "seventy", "80": "eighty", "90": "ninety",
    }.items()
    for word in words.split()
}  # fmt: skip
_IN_A_ROW = {"oh": "0", "o": "0", "hundred": "00", "thousand": "000"}
_TIMES = {
    "double": 2,
    "triple": 3,
    "doppel": 2,
    "dreifach": 3,
    "doble": 2,
    "doppio": 2,
    "treble": 3,
}
_SIGNS = {
    "dash": "-", "hyphen": "-", "minus": "-", "strich": "-", "bindestrich": "-", "tiret": "-",
    "guion": "-", "guión": "-", "trattino": "-", "space": " ", "leerzeichen": " ", "espace": " ",
    "dot": ".", "punkt": ".", "point": ".", "punto": ".", "slash": "/", "plus": "+", "then": " ",
    "and": " ", "und": " ", "et": " ", "y": " ", "comma": " ", "dann": " ",
}  # fmt: skip
_WORD = re.compile(r"[^\W_]+")
_LEAST_WORDS, _ROW = 4, 12
_HAN = str.maketrans("〇零一二三四五六七八九壹贰叁肆伍陆柒捌玖幺", "00123456789123456789" + "1")
_HAN_DIGIT = "[〇零一二三四五六七八九壹贰叁肆伍陆柒捌玖幺]"
_HAN_ROW = re.compile(rf"{_HAN_DIGIT}(?:[ 、,·-]?{_HAN_DIGIT}){{5,}}+")
_ODD_ROW = re.compile(
    r"(?<![^\W_])(?<![0-9][.,])[0-9]{1,6}([^0-9A-Za-z]{1,6})[0-9]{1,6}(?:\1[0-9]{1,6}){1,22}+"
    r"(?![^\W_])"
)
_LONGEST_GAP = 6
_SUMS = frozenset("+=\"'")  # sums and lists of texts have these between numbers
_USUAL = frozenset({" ", "-", ".", "/", ":", ", ", "\n"})
_GROUPS = frozenset(
    {(3, 2, 4), (3, 3, 4), (4, 6, 5), (2, 2, 2, 2, 2), (3, 3, 3), (2, 3, 3, 3), (3, 3, 3, 2)}
)
_LETTERED = re.compile(r"[0-9](?<!\w[0-9])(?:[ -]?[0-9OoIlSB|!]){8,22}+(?!\w)")
_LETTERS = str.maketrans("OoIlSB|!", "00115811")
_GOES_ON_IN_LETTERS = re.compile(r"[0-9][ -]?[OoIlSB|!]")
_FOURS = re.compile(r"(?<![\w.,-])[0-9]{4}(?:[^0-9]{1,48}[0-9]{4}){3}(?![\w-])")

Stretch = tuple[int, int, str]


def with_digits(text: str) -> list[Stretch]:
    """Stretches that are read as one number, and that number's digits; in order, apart."""
    found = [*_spelled(text), *_han(text), *_odd_rows(text), *_lettered(text)]
    found.sort(key=lambda stretch: (stretch[0], -stretch[1]))
    apart: list[Stretch] = []
    for stretch in found:
        if not apart or stretch[0] >= apart[-1][1]:
            apart.append(stretch)
    return apart


def _spelled(text: str) -> list[Stretch]:
    found: list[Stretch] = []
    words = vocabulary(text).row
    hits = [place for place, word in enumerate(words) if word in _DIGIT_WORDS]
    if not any(
        last - first <= _ROW and all(_means_digits(word, True) for word in words[first:last])
        for first, last in zip(hits, hits[_LEAST_WORDS - 1 :], strict=False)
    ):
        return found
    row: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        meant = _means_digits(word[0].lower(), bool(row))
        if row and not (meant and _continues(text, row[-1].end(), word.start())):
            _add_row(found, row)
            row = []
            meant = _means_digits(word[0].lower(), False)
        if meant:
            row.append(word)
    _add_row(found, row)
    return found


def _continues(text: str, end: int, start: int) -> bool:
    return start - end <= 4 and "\n" not in text[end:start]


def _means_digits(word: str, in_row: bool) -> bool:
    if word in _DIGIT_WORDS or word in _TIMES:
        return True
    digits = word.isascii() and word.isdigit()
    return digits or (in_row and (word in _IN_A_ROW or word in _SIGNS))


def _add_row(found: list[Stretch], row: list[re.Match[str]]) -> None:
    """What a row of words says, if enough of them are digits."""
    while row and row[-1][0].lower() in _SIGNS:
        row = row[:-1]
    if sum(word[0].lower() in _DIGIT_WORDS for word in row) < _LEAST_WORDS:
        return
    said, times, tens = "", 1, False
    for match in row:
        word = match[0].lower()
        digits = _DIGIT_WORDS.get(word) or _IN_A_ROW.get(word) or (word if word.isdigit() else "")
        if word in _TIMES:
            times = _TIMES[word]
            continue
        if tens and len(digits) == 1 and digits != "0":
            said = said[:-1]
        said += (digits or _SIGNS[word]) * times
        times, tens = 1, len(digits) == 2 and digits[1] == "0" and word in _DIGIT_WORDS
    found.append((row[0].start(), row[-1].end(), said))


def _han(text: str) -> list[Stretch]:
    if text.isascii():
        return []
    return [
        (match.start(), match.end(), re.sub(r"\D", "", match[0].translate(_HAN)))
        for match in _HAN_ROW.finditer(text)
    ]


def _odd_rows(text: str) -> list[Stretch]:
    """Groups of digits with the same odd sign between all of them, as no list of numbers is."""
    found: list[Stretch] = []
    runs = digit_runs(text)
    for match in _matches(_ODD_ROW, text, _same_gaps(text, runs)):
        groups = re.findall(r"[0-9]+", match[0])
        digits = "".join(groups)
        sizes = tuple(map(len, groups))
        even = len(set(sizes)) == 1 and sizes[0] in (1, 2, 4)
        if not (even or sizes in _GROUPS) or not 7 <= len(digits) <= 24:
            continue
        if _SUMS.intersection(match[1]) and not (
            sizes[0] == 1 and len(digits) > 13 and luhn(digits)
        ):
            continue
        single = sizes[0] == 1  # nobody writes a list of numbers below ten so often
        if match[1] in _USUAL and not single and (len(digits) < 13 or not luhn(digits)):
            continue
        found.append((match.start(), match.end(), digits))
    fours = [run for run in runs if run[1] - run[0] == 4]
    for match in _matches(_FOURS, text, fours if len(fours) >= 4 else []):
        digits = re.sub(r"[^0-9]", "", match[0])
        if digits[0] in "3456" and luhn(digits) and len(set(digits)) > 1:
            found.append((match.start(), match.end(), digits))
    return found


def _same_gaps(text: str, runs: Sequence[Span]) -> Iterator[Span]:
    """Runs of digits behind which the next two have the same short gap before them."""
    gaps = [text[before[1] : behind[0]] for before, behind in pairwise(runs)]
    for run, gap, next_gap in zip(runs, gaps, gaps[1:], strict=False):
        if gap == next_gap and len(gap) <= _LONGEST_GAP:
            yield run


def _matches(pattern: re.Pattern[str], text: str, runs: Iterable[Span]) -> Iterator[re.Match[str]]:
    """As `finditer` of a pattern that matches from the first digit of a run or not at all."""
    done = 0
    for start, _ in runs:
        match = pattern.match(text, start) if start >= done else None
        if match is not None:
            done = match.end()
            yield match


def _lettered(text: str) -> list[Stretch]:
    """`4111 llll …`: letters that look like digits, among at least as many digits."""
    found: list[Stretch] = []
    if not _GOES_ON_IN_LETTERS.search(text):
        return found
    for match in _LETTERED.finditer(text):
        row = match[0]
        letters = sum(map(str.isalpha, row)) + row.count("|") + row.count("!")
        if letters and sum(map(str.isdigit, row)) >= letters:
            found.append((match.start(), match.end(), row.translate(_LETTERS)))
    return found
