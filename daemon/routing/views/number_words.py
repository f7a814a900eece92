"""Words for digits and for numbers below a hundred, in many languages."""

from __future__ import annotations

from itertools import product

from ..text_analysis.data_files import read_sections


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
