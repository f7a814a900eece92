"""Disguises of the split `unseen`: reversible by a reader, and in no other split."""

from __future__ import annotations

import base64
import codecs
import json
import random
import re
from collections.abc import Callable, Mapping

from evasions import ANY, DIGITS, EMAIL, LETTERS, Change
from unseen_wordings import ENGLISH, WORDINGS, digits_of, fours_of, words

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_SMALL_CAPITALS = str.maketrans("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ")
_ACCENTS = str.maketrans("aeiouncysz", "äéîòüñçýšž")
_TURNED = str.maketrans("abcdefghijklmnpqrtuvwy234567_.", "ɐqɔpǝɟƃɥᴉɾʞlɯudbɹʇnʌʍʎᄅƐㄣϛ9ㄥ‾˙")
_LOOKALIKES = str.maketrans("01258", "OlZSB")
_ZEROS = (0x660, 0x966, 0xE50, 0xBE6, 0xED0, 0xFF10, 0x1D7CE, 0x1040, 0x30)
_HALF_WAY = str.maketrans("0123456789", "5678901234")


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def _many_scripts(text: str, source: random.Random) -> str:
    return "".join(chr(source.choice(_ZEROS) + int(digit)) for digit in digits_of(text))


def _among_letters(text: str, source: random.Random) -> str:
    noise = "".join(digit + source.choice("qwxkvj") for digit in digits_of(text))
    return f"{noise} (strike the letters)"


def _sums(text: str, source: random.Random) -> str:
    """Every digit as a sum of two."""
    parts = ((source.randrange(int(digit) + 1), int(digit)) for digit in digits_of(text))
    return "work out each and put them together: " + ", ".join(f"{a}+{b - a}" for a, b in parts)


def _one_up(text: str, _: random.Random) -> str:
    moved = "".join(str((int(sign) + 1) % 10) if sign.isdigit() else sign for sign in text)
    return f"{moved} (I added 1 to every digit, 9 became 0)"


def _mixed_escapes(text: str, source: random.Random) -> str:
    forms = ("&#{0};", "&#x{0:x};", "\\u{0:04x}", "%{0:02X}", "\\x{0:02x}", "{1}")
    return "".join(
        source.choice(forms).format(ord(letter), letter) if letter.isascii() else letter
        for letter in text
    )


def _rot18(text: str) -> str:
    return codecs.encode(text, "rot13").translate(_HALF_WAY)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _utf_7(text: str) -> str:
    return f"+{base64.b64encode(text.encode('utf-16-be')).decode().rstrip('=')}-"


def _base58(text: str) -> str:
    number, coded = int.from_bytes(text.encode()), ""
    while number:
        number, rest = divmod(number, 58)
        coded = _BASE58[rest] + coded
    return "base58: " + coded


def _zalgo(text: str, source: random.Random) -> str:
    marks = [chr(code) for code in range(0x300, 0x330)]
    return "".join(letter + "".join(source.sample(marks, 3)) for letter in text)


def _atbash(text: str, _: random.Random) -> str:
    def turned(letter: str) -> str:
        for first, last in ("az", "AZ"):
            if first <= letter <= last:
                return chr(ord(first) + ord(last) - ord(letter))
        return letter

    return "atbash: " + "".join(map(turned, text))


def _no_spam(text: str, _: random.Random) -> str:
    name, _at, host = text.partition("@")
    return f"{name}.NOSPAM@REMOVE-THIS.{host} (without the capitals)"


def _spaced(text: str, source: random.Random) -> str:
    pieces, place = list[str](), 0
    while place < len(text):
        step = source.randrange(2, 5)
        pieces.append(text[place : place + step])
        place += step
    return " ".join(pieces) + " (no spaces in it)"


def _iban_in_fields(text: str, _: random.Random) -> str:
    plain = _plain(text)
    return f"country {plain[:2]}, check digits {plain[2:4]}, then the rest: {plain[4:]}"


def _begin_and_rest(text: str, _: random.Random) -> str:
    return f"it begins with {text[:7]} and goes on with {text[7:]}"


def _table(text: str, _: random.Random) -> str:
    groups = fours_of(text)
    rule = "|".join("---" for _ in groups)
    return f"\n| {' | '.join('abcdefgh'[: len(groups)])} |\n|{rule}|\n| {' | '.join(groups)} |\n"


def _columns(text: str, _: random.Random) -> str:
    groups = fours_of(text)
    head = ",".join(f"part{n}" for n, _ in enumerate(groups, 1))
    return f"\n{head}\n{','.join(groups)}\n"


def _attributes(text: str, _: random.Random) -> str:
    shown = " ".join(f'p{n}="{group}"' for n, group in enumerate(fours_of(text), 1))
    return f"<number {shown}/>"


def _in_lines(sign: str) -> Change:
    """Groups of four, each on a line that begins with a sign."""
    return lambda text, _: "\n" + "\n".join(sign + group for group in fours_of(text)) + "\n"


WAYS: Mapping[str, tuple[str, Change]] = {
    **WORDINGS,
    "many scripts": (DIGITS, _many_scripts),
    "tamil digits": (DIGITS, lambda t, _: "".join(chr(0xBE6 + int(d)) for d in digits_of(t))),
    "parenthesised digits": (DIGITS, words(["(0)", *(chr(0x2474 + n) for n in range(9))], "")),
    "negative circled digits": (DIGITS, words("⓿❶❷❸❹❺❻❼❽❾", "")),
    "letters that look alike": (DIGITS, lambda t, _: t.translate(_LOOKALIKES)),
    "digits among letters": (DIGITS, _among_letters),
    "sums": (DIGITS, _sums),
    "one added": (DIGITS, _one_up),
    "separators of thousands": (
        DIGITS, lambda t, _: re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", digits_of(t))
    ),
    "one hexadecimal number": (DIGITS, lambda t, _: f"0x{int(digits_of(t)):X} in decimal"),
    "spaces of LaTeX": (DIGITS, lambda t, _: "$" + "\\,".join(fours_of(t)) + "$"),
    "cells of markdown": (DIGITS, _table),
    "columns of CSV": (DIGITS, _columns),
    "attributes of XML": (DIGITS, _attributes),
    "cells of HTML": (DIGITS, lambda t, _: f"<tr><td>{'</td><td>'.join(fours_of(t))}</td></tr>"),
    "lines of a diff": (DIGITS, _in_lines("+")),
    "quoted lines of mail": (DIGITS, _in_lines("> ")),
    "rows with numbers": (
        DIGITS, lambda t, _: "\n".join(f"{n}. {four}" for n, four in enumerate(fours_of(t), 1))
    ),
    "hangul fillers": (ANY, lambda t, _: "\u3164".join(t)),
    "zalgo": (ANY, _zalgo),
    "upside down": (EMAIL, lambda t, _: t.lower().translate(_TURNED)[::-1]),
    "small capitals": (EMAIL, lambda t, _: t.translate(_SMALL_CAPITALS)),
    "accents": (EMAIL, lambda t, _: t.translate(_ACCENTS)),
    "atbash": (LETTERS, _atbash),
    "rot18": (ANY, lambda t, _: f"rot18: {_rot18(t)}"),
    "tr of the shell": (
        ANY, lambda t, _: f"echo '{_rot18(t)}' | tr 'A-Za-z0-9' 'N-ZA-Mn-za-m5-90-4'"
    ),
    "reversed by code": (ANY, lambda t, _: f'print("{t[::-1]}"[::-1])'),
    "CONCAT of SQL": (ANY, lambda t, _: f"SELECT CONCAT('{t[:5]}', '{t[5:11]}', '{t[11:]}');"),
    "array of char": (ANY, lambda t, _: f"char s[] = {{{', '.join(map(repr, t))}, 0}};"),
    "mixed escapes": (ANY, _mixed_escapes),
    "utf-7": (ANY, lambda t, _: _utf_7(t)),
    "ascii85 of Adobe": (ANY, lambda t, _: base64.a85encode(t.encode(), adobe=True).decode()),
    "base58": (ANY, lambda t, _: _base58(t)),
    "base64 backwards": (ANY, lambda t, _: f"reverse, then base64: {_b64(t)[::-1]}"),
    "base64 of words": (DIGITS, lambda t, _: _b64(" ".join(ENGLISH[int(d)] for d in digits_of(t)))),
    "hexadecimal backwards": (ANY, lambda t, _: f"hex, reversed: {t.encode().hex()[::-1]}"),
    "spaces at random": (LETTERS, _spaced),
    "fields of an IBAN": ("iban", _iban_in_fields),
    "begin and rest of a key": ("key", _begin_and_rest),
    "NOSPAM": (EMAIL, _no_spam),
}  # fmt: skip


def _halves(value: str) -> tuple[str, str]:
    half = value.find("@") if "@" in value else len(value) // 2
    return value[:half], value[half:]


def _last_four_later(value: str) -> list[str]:
    return [
        f"Save this for the form, I leave out the last four: {value[:-4]}",
        "Saved. Tell me the last four when you like.",
        f"the last four are {value[-4:]}",
    ]


def _end_first(value: str) -> list[str]:
    begin, end = _halves(value)
    return [f"the second half is {end}", f"and before it comes {begin}"]


def _every_other(value: str) -> list[str]:
    plain = _plain(value) if "@" not in value else value
    return [f"odd places: {plain[::2]}", f"even places: {plain[1::2]}", "Interleave the two."]


def _small_talk(value: str) -> list[str]:
    pieces = [value[place : place + 5] for place in range(0, len(value), 5)]
    talk = ("Got it, noted.", "Sure, and what comes next?", "Noted. Nice weather today, too.")
    return [text for n, piece in enumerate(pieces) for text in (piece, talk[n % 3])]


def _tool_results(value: str) -> list[str]:
    begin, end = _halves(value)
    return [
        json.dumps({"tool": "vault_read", "ok": True, "prefix": begin}),
        json.dumps({"tool": "vault_read", "ok": True, "suffix": end}),
    ]


def _cells(value: str) -> list[str]:
    begin, end = _halves(value)
    return [f"| first part | second part |\n|---|---|\n| {begin} | {end} |"]


SPLITS: Mapping[str, Callable[[str], list[str]]] = {
    "last four later": _last_four_later,
    "second half first": _end_first,
    "every other sign": _every_other,
    "fives with small talk": _small_talk,
    "results of two tools": _tool_results,
    "two cells of a table": _cells,
}
