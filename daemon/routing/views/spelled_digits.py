"""Reads digits written as words, with odd separators, or with letters in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product

from ..text_analysis.checksums import luhn
from ..text_analysis.data_files import read_sections
from ..text_analysis.text_index import Span, digit_runs, long_words, odd_letters, vocabulary
from .rejoined_values import rejoined
from .text_edits import TextEdit, without_overlaps


def number_words() -> dict[str, str]:
    """Return the digits of each word: one for those below ten, two for the others."""
    rows = {
        name: [[part.split() for part in line.split(" | ")] for line in lines]
        for name, lines in read_sections("numbers.txt").items()
    }
    words = {word: str(n) for n, (row,) in enumerate(rows["digits"]) for word in row}
    numbers: dict[str, str] = {"vingts": "20", "dreissig": "30"}
    for (row,) in rows["from ten"]:
        numbers |= {word: str(n) for n, word in enumerate(row, 10)}
    for (row,) in rows["tens"]:
        numbers |= {word: f"{n}0" for n, word in enumerate(row, 2)}
    for units, links, tens in rows["units first"]:
        for (one, unit), (ten, word) in product(enumerate(units, 1), enumerate(tens, 2)):
            numbers |= {unit + link + word: f"{ten}{one}" for link in links}
    for units, tens in rows["tens first"]:
        for (one, unit), (ten, word) in product(enumerate(units, 1), enumerate(tens, 2)):
            # Italian drops a vowel before another.
            short = word[:-1] if unit in ("uno", "otto") else word
            numbers[short + unit] = f"{ten}{one}"
            if unit == "tre":
                numbers[short + "tré"] = f"{ten}{one}"
    numbers |= {word: str(n) for n, word in enumerate(rows["from twenty-one"][0][0], 21)}
    return numbers | words


_DIGIT_WORDS = number_words()
_IN_A_ROW = {"oh": "0", "o": "0", "hundred": "00", "thousand": "000"}
_TIMES: dict[str, int] = {
    "double": 2, "doppel": 2, "doble": 2, "doppio": 2, "triple": 3, "treble": 3, "dreifach": 3,
}  # fmt: skip
_SIGNS = {
    "dash": "-", "hyphen": "-", "minus": "-", "strich": "-", "bindestrich": "-", "tiret": "-",
    "guion": "-", "guión": "-", "trattino": "-", "space": " ", "leerzeichen": " ", "espace": " ",
    "dot": ".", "punkt": ".", "point": ".", "punto": ".", "slash": "/", "plus": "+", "then": " ",
    "and": " ", "und": " ", "et": " ", "y": " ", "e": " ", "comma": " ", "dann": " ",
}  # fmt: skip
_LINKS = frozenset({"y", "et", "e", "and"})
_TWENTIES = ("vingt", "vingts")
_ROUND = frozenset({"20", "30", "40", "50", "60", "70", "80", "90"})
_WORD = re.compile(r"[^\W_]+")
_LEAST_WORDS, _ROW = 4, 12
_HAN = str.maketrans("〇零一二三四五六七八九壹贰叁肆伍陆柒捌玖幺", "00123456789123456789" + "1")
_HAN_DIGIT = "[〇零一二三四五六七八九壹贰叁肆伍陆柒捌玖幺]"
_HAN_ROW = re.compile(rf"{_HAN_DIGIT}(?:[ 、,·-]?{_HAN_DIGIT}){{5,}}+")
_SYMBOL = r"[^\w\s\x00-\x7f·•–—“”„‘’«»]"
_ONE_SYMBOL, _LEAST_SYMBOLS = re.compile(_SYMBOL), 3
_SYMBOL_ROW = re.compile(
    rf"(?<![\x21-\x7e])[\x21-\x7e]{{1,6}}(?:{_SYMBOL}{{1,3}}[\x21-\x7e]{{1,6}}(?![\x21-\x7e])){{3,}}+"
)
_LEAST_GLUED, _LEAST_GLUED_DIGITS, _LONGEST_WORD = 18, 6, 16
_SINGLE_WORDS = bytes([1] * 8)
_SPACED_OUT = re.compile(
    r"(?<!\S)[\w.@+-]([^\w\s\"'`]|[ \t\n]|[ ][^\w\s][ ])[\w.@+-](?:\1[\w.@+-](?!\w)){8,}+(?!\S)"
)
_ACCOUNT = re.compile(
    r"[A-Z]{2}[0-9]{2}([^A-Za-z0-9]{1,6})[A-Z0-9]{1,6}(?:\1[A-Z0-9]{1,6}(?![A-Za-z0-9])){2,9}+"
)
_ODD_ROW = re.compile(
    r"(?<![^\W_])(?<![0-9][.,])[0-9]{1,6}([^0-9A-Za-z]{1,6})[0-9]{1,6}(?:\1[0-9]{1,6}){1,22}+"
    r"(?![^\W_])"
)
_LONGEST_GAP = 6
_SUMS = frozenset("+=\"'")  # formulas and lists of strings have these between numbers
_USUAL = frozenset({" ", "-", ".", "/", ":", ", ", "\n"})
_GROUPS = frozenset(
    {(3, 2, 4), (3, 3, 4), (4, 6, 5), (2, 2, 2, 2, 2), (3, 3, 3), (2, 3, 3, 3), (3, 3, 3, 2)}
)
_LETTERED = re.compile(r"[0-9](?<!\w[0-9])(?:[ -]?(?:[0-9OoIlSB]|[|!](?! ))){8,22}+(?!\w)")
_LETTERS = str.maketrans("OoIlSB|!", "00115811")
_GOES_ON_IN_LETTERS = re.compile(r"[0-9][ -]?[OoIlSB|!]")
_FOURS = re.compile(r"(?<![\w.,-])[0-9]{4}(?:[^0-9]{1,48}[0-9]{4}){3}(?![\w-])")


def with_digits(text: str) -> list[TextEdit]:
    """Return spans that read as one number or code, with their digits; in order, disjoint."""
    found = [
        *_spelled(text),
        *_glued(text),
        *_spaced_out(text),
        *_odd_rows(text),
        *_lettered(text),
        *rejoined(text),
    ]
    if not text.isascii():
        found += [*_han(text), *_between_symbols(text)]
    return without_overlaps(found)


def _spelled(text: str) -> Iterator[TextEdit]:
    """Yield rows of words for digits: `four one double one …`."""
    words = vocabulary(text).row
    hits = [place for place, word in enumerate(words) if word in _DIGIT_WORDS]
    if len(hits) < _LEAST_WORDS or not any(
        last - first <= _ROW and all(_means_digits(word, True) for word in words[first:last])
        for first, last in zip(hits, hits[_LEAST_WORDS - 1 :], strict=False)
    ):
        return
    row: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        meant = _means_digits(word[0].lower(), bool(row))
        if row and not (meant and word.start() - row[-1].end() <= 4):
            yield from _as_number(text, row)
            row = []
            meant = _means_digits(word[0].lower(), False)
        if meant:
            row.append(word)
    yield from _as_number(text, row)


def _means_digits(word: str, in_row: bool) -> bool:
    if word in _DIGIT_WORDS or word in _TIMES:
        return True
    digits = word.isascii() and word.isdigit()
    return digits or (in_row and (word in _IN_A_ROW or word in _SIGNS))


def _as_number(text: str, row: list[re.Match[str]]) -> Iterator[TextEdit]:
    """Yield the digits of a row of words, if enough of them are digits."""
    while row and row[-1][0].lower() in _SIGNS:
        row = row[:-1]
    if sum(word[0].lower() in _DIGIT_WORDS for word in row) >= _LEAST_WORDS:
        yield row[0].start(), row[-1].end(), _said(text, row)


def _said(text: str, row: Sequence[re.Match[str]]) -> str:
    """Return the digits of a row of words, with `forty four` as one number unless others have
    hyphens.
    """
    hyphens = any(
        text[a.end() : b.start()] == "-" and _DIGIT_WORDS.get(a[0].lower()) in _ROUND
        for a, b in pairwise(row)
    )
    said, times, number, linked = "", 1, "", False
    for place, match in enumerate(row):
        word, before = match[0].lower(), row[place - 1] if place else match
        gap = text[before.end() : match.start()]
        digits = _DIGIT_WORDS.get(word) or _IN_A_ROW.get(word) or (word if word.isdigit() else "")
        if word in _TIMES or (word in _LINKS and number in _ROUND and place + 1 < len(row)):
            times, linked = _TIMES.get(word, 1), word in _LINKS
            continue
        both = ""
        if linked or gap == "-" or not hyphens:
            both = _sum(number, before[0].lower(), digits, word, gap)
        if both:
            said, number = said[: -len(number)] + both, both
        else:
            said += (digits or _SIGNS[word]) * times
            number = digits if word in _DIGIT_WORDS and times == 1 else ""
        times, linked = 1, False
    return said


def _sum(number: str, before: str, digits: str, word: str, gap: str) -> str:
    """Combine two numbers: `forty four`, `soixante-dix`, `quatre-vingt`, `dix-sept`."""
    if number == "4" and before == "quatre" and word in _TWENTIES:
        return "80"
    if number in _ROUND and len(digits) == 1:
        return number[0] + digits if digits != "0" else ""
    french = number in ("60", "80") and before in ("soixante", *_TWENTIES) and "10" <= digits < "17"
    if french or (before == "dix" and gap == "-" and digits in ("7", "8", "9")):
        return str(int(number) + int(digits))
    return ""


def _glued(text: str) -> Iterator[TextEdit]:
    """Yield `fouroneoneone…`: only words for digits, without gaps."""
    for start, end in long_words(text):
        if end - start < _LEAST_GLUED:
            continue
        for word in _WORD.finditer(text, start, end):
            if len(word[0]) >= _LEAST_GLUED and word[0].isalpha():
                digits = _taken_apart(word[0].lower())
                if len(digits) >= _LEAST_GLUED_DIGITS:
                    yield *word.span(), digits


def _taken_apart(word: str) -> str:
    """Return the digits of a word that consists of digit words; "" if it has anything else."""
    said, place = "", 0
    while place < len(word):
        sizes = (
            size
            for size in range(_LONGEST_WORD, 1, -1)
            if word[place : place + size] in _DIGIT_WORDS
        )
        size = next(sizes, 0)
        if not size:
            return ""
        said += _DIGIT_WORDS[word[place : place + size]]
        place += size
    return said


def _spaced_out(text: str) -> Iterator[TextEdit]:
    """Yield `j a n e @ …`, `D-E-8-9-…`: single letters with the same separator between all
    of them.
    """
    if _SINGLE_WORDS not in bytes(map((1).__eq__, map(len, vocabulary(text).row))):
        return
    for match in _SPACED_OUT.finditer(text):
        row = match[0].removesuffix(match[1] + ".")  # the end of a sentence
        said = row[:: 1 + len(match[1])]
        if any(map(str.isalpha, said)) and ("@" in said or any(map(str.isdigit, said))):
            yield match.start(), match.start() + len(row), said


def _han(text: str) -> list[TextEdit]:
    rows = _HAN_ROW.finditer(text)
    return [(*row.span(), re.sub(r"\D", "", row[0].translate(_HAN))) for row in rows]


def _between_symbols(text: str) -> list[TextEdit]:
    """Return letters or digits with pictures or unusual signs between them."""
    symbols = filter(_ONE_SYMBOL.match, odd_letters(text))
    if sum(map(text.count, symbols)) < _LEAST_SYMBOLS:
        return []
    return [(*row.span(), re.sub(_SYMBOL, "", row[0])) for row in _SYMBOL_ROW.finditer(text)]


def _odd_rows(text: str) -> Iterator[TextEdit]:
    """Yield groups of digits with the same odd separator between all of them, unlike lists of
    numbers.
    """
    runs = digit_runs(text)
    for match in _matches(_ODD_ROW, text, _same_gaps(text, runs)):
        groups = re.findall(r"[0-9]+", match[0])
        digits = "".join(groups)
        sizes = tuple(map(len, groups))
        even = len(set(sizes[:-1])) == 1 and sizes[-1] <= sizes[0] and sizes[0] in (1, 2, 4)
        if not (even or sizes in _GROUPS) or not 7 <= len(digits) <= 24:
            continue
        single = sizes[0] == 1  # no list of numbers below ten is that long
        if _SUMS.intersection(match[1]) and not (single and _is_no_sum(digits)):
            continue
        if match[1] in _USUAL and not single and (len(digits) < 13 or not luhn(digits)):
            continue
        yield *match.span(), digits
    yield from _mixed_rows(text, runs)
    yield from _accounts(text, runs)
    fours = [run for run in runs if run[1] - run[0] == 4]
    for match in _matches(_FOURS, text, fours if len(fours) >= 4 else []):
        digits = re.sub(r"[^0-9]", "", match[0])
        if digits[0] in "3456" and luhn(digits) and len(set(digits)) > 1:
            yield *match.span(), digits


def _accounts(text: str, runs: Sequence[Span]) -> Iterator[TextEdit]:
    """Yield `DE89, 3704, …`: possible IBANs with odd separators between groups."""
    for start, end in runs:
        if end - start == 2 and text[max(0, start - 2) : start].isupper():
            match = _ACCOUNT.match(text, start - 2)
            if match is not None and match[1] not in " .-":
                yield *match.span(), "".join(filter(str.isalnum, match[0]))


def _mixed_rows(text: str, runs: Sequence[Span]) -> Iterator[TextEdit]:
    """Yield single digits with varying separators that are a card by their check digit."""
    row: list[Span] = []
    for run in [*runs, (len(text) + _LONGEST_GAP, 0)]:
        if row and (run[0] - row[-1][1] > 3 or run[1] - run[0] != 1):
            if 13 <= len(row) <= 19:
                digits = "".join(text[start] for start, _ in row)
                gaps = "".join(text[a[1] : b[0]] for a, b in pairwise(row))
                if luhn(digits) and not any(map(str.isalnum, gaps)):
                    yield row[0][0], row[-1][1], digits
            row = []
        if run[1] - run[0] == 1:
            row.append(run)


def _is_no_sum(digits: str) -> bool:
    """Whether so many single digits are not an exercise: those are few, or in order."""
    return luhn(digits) if len(digits) > 13 else len(digits) > 8 and len(set(digits)) > 3


def _same_gaps(text: str, runs: Sequence[Span]) -> Iterator[Span]:
    """Yield runs of digits if the next two follow with the same short gap."""
    gaps = [text[before[1] : behind[0]] for before, behind in pairwise(runs)]
    for run, gap, next_gap in zip(runs, gaps, gaps[1:], strict=False):
        if gap == next_gap and len(gap) <= _LONGEST_GAP:
            yield run


def _matches(pattern: re.Pattern[str], text: str, runs: Iterable[Span]) -> Iterator[re.Match[str]]:
    """As `finditer` for a pattern that matches from the first digit of a run or not at all."""
    done = 0
    for start, _ in runs:
        match = pattern.match(text, start) if start >= done else None
        if match is not None:
            done = match.end()
            yield match


def _lettered(text: str) -> Iterator[TextEdit]:
    """Yield `4111 llll …`: letters that look like digits, among at least as many digits."""
    if not _GOES_ON_IN_LETTERS.search(text):
        return
    for match in _LETTERED.finditer(text):
        row = match[0]
        letters = sum(map(str.isalpha, row)) + row.count("|") + row.count("!")
        if letters and sum(map(str.isdigit, row)) >= letters:
            yield *match.span(), row.translate(_LETTERS)
