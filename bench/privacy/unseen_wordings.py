"""Numbers and addresses in words and in the signs of Morse, Braille, radio and old phones."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from evasions import DIGITS, EMAIL, Change

_SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789@._-+"
_MORSE = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- "
    ".-- -..- -.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. "
    ".--.-. .-.-.- ..--.- -....- .-.-."
)
_RADIO = (
    "Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November "
    "Oscar Papa Quebec Romeo Sierra Tango Uniform Victor Whiskey X-ray Yankee Zulu zero one "
    "two tree fower fife six seven ait niner at dot underscore dash plus"
)
_ROMAN = "N I II III IV V VI VII VIII IX".split()  # noqa: SIM905
_JAPANESE = "ゼロ いち に さん よん ご ろく なな はち きゅう".split()  # noqa: SIM905
_HINDI = "शून्य एक दो तीन चार पांच छह सात आठ नौ".split()  # noqa: SIM905
_ARABIC = "صفر واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة".split()  # noqa: SIM905
_INDONESIAN = "nol satu dua tiga empat lima enam tujuh delapan sembilan".split()  # noqa: SIM905
_CZECH = "nula jedna dva tři čtyři pět šest sedm osm devět".split()  # noqa: SIM905
_DANISH = "nul en to tre fire fem seks syv otte ni".split()  # noqa: SIM905
_FINNISH = "nolla yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän".split()  # noqa: SIM905
_GERMAN = "null ein zwei drei vier fünf sechs sieben acht neun".split()  # noqa: SIM905
_GERMAN_TEENS = (
    "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()  # noqa: SIM905
)
_GERMAN_TENS = "_ _ zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()  # noqa: SIM905
ENGLISH = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
_TEENS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
)
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_BRAILLE = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"
_KEYPAD = ("abc", "def", "ghi", "jkl", "mno", "pqrs", "tuv", "wxyz")


def digits_of(text: str) -> str:
    """Return the digits without separators."""
    return "".join(letter for letter in text if letter.isdigit())


def fours_of(text: str) -> list[str]:
    """The digits in groups of four, the last maybe shorter."""
    digits = digits_of(text)
    return [digits[place : place + 4] for place in range(0, len(digits), 4)]


def words(names: Sequence[str], gap: str = " ") -> Change:
    """Return a disguise that spells every digit by its name."""
    return lambda text, _: gap.join(names[int(digit)] for digit in digits_of(text))


def _signs(names: str) -> Change:
    """Return a disguise that names every sign; numbers lose the separators of their groups."""
    table = dict(zip(_SIGNS, names.split(), strict=True))

    def change(text: str, _: random.Random) -> str:
        plain = text.lower() if "@" in text else digits_of(text)
        return " ".join(table.get(letter, letter) for letter in plain)

    return change


def _below_hundred(number: int, german: bool) -> str:
    ten, one = divmod(number, 10)
    if ten == 1:
        return (_GERMAN_TEENS if german else _TEENS)[one]
    if german:
        if ten == 0:
            return "eins" if one == 1 else _GERMAN[one]
        return (f"{_GERMAN[one]}und" if one else "") + _GERMAN_TENS[ten]
    return ENGLISH[one] if ten == 0 else _TENS[ten] + (f"-{ENGLISH[one]}" if one else "")


def _german_pairs(text: str, _: random.Random) -> str:
    digits = digits_of(text)
    pairs = (digits[place : place + 2] for place in range(0, len(digits), 2))
    return ", ".join(
        ("null " if len(pair) > 1 and pair[0] == "0" else "") + _below_hundred(int(pair), True)
        for pair in pairs
    )


def _thousands(text: str, _: random.Random) -> str:
    """Groups of four as whole numbers: "four thousand five hundred and thirty-nine"."""
    said: list[str] = []
    for group in fours_of(text):
        zeros = "zero " * (len(group) - len(group.lstrip("0")))
        thousand, rest = divmod(int(group), 1000)
        begin = f"{ENGLISH[thousand]} thousand " if thousand else ""
        begin += f"{ENGLISH[rest // 100]} hundred" if rest >= 100 else ""
        parts = [begin.strip()] if begin else []
        parts += [_below_hundred(rest % 100, False)] if rest % 100 else []
        said.append((zeros + " and ".join(parts)).strip())
    return ", then ".join(said)


def _doubles(text: str, _: random.Random) -> str:
    """As people spell on the phone: "double four, triple nine"."""
    names = {1: "", 2: "double ", 3: "triple "}
    runs = re.findall(r"((\d)\2{0,2})", digits_of(text))
    return ", ".join(names[len(run)] + ENGLISH[int(digit)] for run, digit in runs)


def _positions(text: str, _: random.Random) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    shown = (
        f"the {n}{'th' if n in (11, 12, 13) else ends.get(n % 10, 'th')} is {digit}"
        for n, digit in enumerate(digits_of(text), 1)
    )
    return "its digits: " + ", ".join(shown)


def _many_languages(text: str, source: random.Random) -> str:
    lists = (_JAPANESE, _INDONESIAN, _CZECH, _DANISH, _FINNISH, ENGLISH, _ROMAN, [*"0123456789"])
    return " ".join(source.choice(lists)[int(digit)] for digit in digits_of(text))


def _braille(text: str, _: random.Random) -> str:
    plain = text.lower() if "@" in text else digits_of(text)
    table = dict(zip("abcdefghijklmnopqrstuvwxyz", _BRAILLE, strict=True))
    coded, number = "", False
    for letter in plain:
        if letter.isdigit():
            coded += ("" if number else "⠼") + _BRAILLE[(int(letter) - 1) % 10]
        else:
            coded += "⠰" if number and letter in "abcdefghij" else ""  # else it reads as a digit
            coded += {"@": "⠈⠁", ".": "⠲", "-": "⠤", "_": "⠨⠤"}.get(
                letter, table.get(letter, letter)
            )
        number = letter.isdigit()
    return coded


def _flags(text: str, _: random.Random) -> str:
    return "\u2009".join(
        chr(0x1F1E6 + ord(letter) - 97) if "a" <= letter <= "z" else letter
        for letter in text.lower()
    )


def _multi_tap(text: str, _: random.Random) -> str:
    """As on the keys of an old phone."""
    table = {
        letter: str(key) * place
        for key, letters in enumerate(_KEYPAD, 2)
        for place, letter in enumerate(letters, 1)
    }
    shown = (table.get(letter, f"[{letter}]") for letter in text.lower())
    return "old phone keypad, multi-tap: " + " ".join(shown)


def _ranks(text: str, _: random.Random) -> str:
    shown = (f"{ord(c) - 96}" if "a" <= c <= "z" else f"({c})" for c in text.lower())
    return "a=1, b=2 and so on: " + " ".join(shown)


def _domain_first(text: str, _: random.Random) -> str:
    name, _at, host = text.partition("@")
    return f"the mailbox is called {name} and it is hosted at {host}"


def _signs_of_mail(at: str, dot: str) -> Change:
    return lambda text, _: text.replace("@", f" {at} ").replace(".", f" {dot} ")


WORDINGS: dict[str, tuple[str, Change]] = {
    "morse, numbers": (DIGITS, _signs(_MORSE)),
    "morse, mail": (EMAIL, _signs(_MORSE)),
    "radio alphabet, numbers": (DIGITS, _signs(_RADIO)),
    "radio alphabet, mail": (EMAIL, _signs(_RADIO)),
    "roman numerals": (DIGITS, words(_ROMAN)),
    "japanese words": (DIGITS, words(_JAPANESE, "、")),
    "hindi words": (DIGITS, words(_HINDI)),
    "arabic words": (DIGITS, words(_ARABIC)),
    "indonesian words": (DIGITS, words(_INDONESIAN)),
    "czech words": (DIGITS, words(_CZECH)),
    "danish words, hyphens": (DIGITS, words(_DANISH, "-")),
    "finnish words": (DIGITS, words(_FINNISH)),
    "korean signs": (DIGITS, words("영일이삼사오육칠팔구", "")),
    "chinese signs of banks": (DIGITS, words("零壹贰叁肆伍陆柒捌玖", "")),
    "german pairs": (DIGITS, _german_pairs),
    "groups as thousands": (DIGITS, _thousands),
    "double and triple": (DIGITS, _doubles),
    "a digit in each clause": (DIGITS, _positions),
    "many languages": (DIGITS, _many_languages),
    "braille, numbers": (DIGITS, _braille),
    "braille, mail": (EMAIL, _braille),
    "flags": (EMAIL, _flags),
    "multi-tap": (EMAIL, _multi_tap),
    "ranks of letters": (EMAIL, _ranks),
    "host before the name": (EMAIL, _domain_first),
    "arroba y punto": (EMAIL, _signs_of_mail("arroba", "punto")),
    "arobase et point": (EMAIL, _signs_of_mail("arobase", "point")),
    "chiocciola e punto": (EMAIL, _signs_of_mail("chiocciola", "punto")),
    "małpa i kropka": (EMAIL, _signs_of_mail("małpa", "kropka")),
    "собака и точка": (EMAIL, _signs_of_mail("собака", "точка")),
    "アットマークとドット": (EMAIL, _signs_of_mail("アットマーク", "ドット")),
    "at-sign, full stop": (EMAIL, _signs_of_mail("at-sign", "full stop")),
}
