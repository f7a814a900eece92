"""Disguises of the split `fresh`: other scripts, signs, codes and ways to split than before."""

from __future__ import annotations

import base64
import binascii
import json
import quopri
import random
import zlib
from collections.abc import Callable, Mapping, Sequence

from evasions import ANY, DIGITS, EMAIL, LETTERS, Change

_PORTUGUESE = "zero um dois três quatro cinco seis sete oito nove".split()  # noqa: SIM905
_SWEDISH = "noll ett två tre fyra fem sex sju åtta nio".split()  # noqa: SIM905
_POLISH = "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć".split()  # noqa: SIM905
_TURKISH = "sıfır bir iki üç dört beş altı yedi sekiz dokuz".split()  # noqa: SIM905
_RUSSIAN = "ноль один два три четыре пять шесть семь восемь девять".split()  # noqa: SIM905
_SPOKEN = "oh one two three four five six seven eight nine".split()  # noqa: SIM905
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_TEENS = "ten eleven twelve thir four fif six seven eigh nine".split()  # noqa: SIM905
_EMOJI = "🙂🎈🍀⭐"


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def _words(words: Sequence[str], gap: str = " ") -> Change:
    return lambda text, _: gap.join(words[int(digit)] for digit in _digits(text))


def _pairs(text: str, _: random.Random) -> str:
    """As people read numbers out: "forty-one eleven oh five"."""
    digits, said = _digits(text), list[str]()
    for place in range(0, len(digits) - 1, 2):
        ten, one = int(digits[place]), int(digits[place + 1])
        if ten == 1:
            said.append(_TEENS[one] + ("teen" if one > 2 else ""))
        elif ten == 0:
            said.append(f"oh {_SPOKEN[one]}")
        else:
            said.append(_TENS[ten] + (f"-{_SPOKEN[one]}" if one else ""))
    return " ".join(said + [_SPOKEN[int(digits[-1])]] * (len(digits) % 2))


def _each(form: str, gap: str = "") -> Change:
    """Return a disguise of every digit in a form such as `<b>{}</b>`."""
    return lambda text, _: gap.join(form.format(digit) for digit in _digits(text))


def _all(form: str, gap: str = "") -> Change:
    """Return a disguise of every letter in a form of its code, such as `&#{0:06d};`."""
    return lambda text, _: gap.join(form.format(ord(letter)) for letter in text)


def _from(digit: int | None = None, small: int | None = None, capital: int | None = None) -> Change:
    """Digits and letters of another shape, which begin at these codes."""

    def change(text: str, _: random.Random) -> str:
        table: dict[int, int] = {}
        for begin, to, count in ((48, digit, 10), (97, small, 26), (65, capital, 26)):
            table |= {begin + n: to + n for n in range(count)} if to is not None else {}
        return text.translate(table)

    return change


def _between(sign: str) -> Change:
    return lambda text, _: sign.join(text)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _dump(text: str, _: random.Random) -> str:
    """As `xxd` prints it."""
    lines: list[str] = []
    data = text.encode()
    for place in range(0, len(data), 16):
        row = data[place : place + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}: {row.hex(' ', 2):39}  {shown}")
    return "\n".join(lines)


def _fours(text: str, form: str, gap: str) -> str:
    plain = "".join(letter for letter in text if letter.isalnum())
    fours = [plain[place : place + 4] for place in range(0, len(plain), 4)]
    return gap.join(form.format(four) for four in fours)


def _emoji(text: str, source: random.Random) -> str:
    return "".join(digit + source.choice(_EMOJI) for digit in _digits(text))


def _rot47(text: str, _: random.Random) -> str:
    turned = (chr(33 + (ord(c) + 14) % 94) if "!" <= c <= "~" else c for c in text)
    return "ROT47: " + "".join(turned)


WAYS: Mapping[str, tuple[str, Change]] = {
    "zero width non-joiners": (ANY, _between("\u200c")),
    "grapheme joiners": (ANY, _between("\u034f")),
    "invisible times": (ANY, _between("\u2062")),
    "underlines": (ANY, lambda t, _: "".join(c + "\u0332" for c in t)),
    "right-to-left override": (ANY, lambda t, _: f"\u202e{t[::-1]}\u202c"),
    "sans-serif": (ANY, _from(0x1D7E2, 0x1D5BA, 0x1D5A0)),
    "sans-serif bold": (ANY, _from(0x1D7EC, 0x1D5EE, 0x1D5D4)),
    "circled letters": (LETTERS, _from(None, 0x24D0, 0x24B6)),
    "fraktur": (LETTERS, _from(None, 0x1D586, 0x1D56C)),
    "thai digits": (DIGITS, _from(0xE50)),
    "persian digits": (DIGITS, _from(0x6F0)),
    "khmer digits": (DIGITS, _from(0x17E0)),
    "subscripts": (DIGITS, _from(0x2080)),
    "no-break spaces": (DIGITS, _each("{}", "\u202f")),
    "middle dots": (DIGITS, _each("{}", "·")),
    "plus signs": (DIGITS, _each("{}", " + ")),
    "tabs": (DIGITS, _each("{}", "\t")),
    "brackets": (DIGITS, _each("[{}]")),
    "list of texts": (DIGITS, _each("'{}'", ", ")),
    "bold in HTML": (DIGITS, _each("<b>{}</b>")),
    "stars of markdown": (DIGITS, lambda t, _: _fours(t, "**{}**", " ")),
    "comments in HTML": (ANY, lambda t, _: f"{t[:5]}<!-- x -->{t[5:]}"),
    "comments of code": (DIGITS, lambda t, _: _fours(t, "// {}", "\n")),
    "list with bullets": (DIGITS, lambda t, _: _fours(t, "- {}", "\n")),
    "emoji": (DIGITS, _emoji),
    "portuguese words": (DIGITS, _words(_PORTUGUESE)),
    "swedish words": (DIGITS, _words(_SWEDISH)),
    "polish words, commas": (DIGITS, _words(_POLISH, ", ")),
    "turkish words": (DIGITS, _words(_TURKISH)),
    "russian words": (DIGITS, _words(_RUSSIAN)),
    "english words with oh": (DIGITS, _words(_SPOKEN)),
    "pairs in english words": (DIGITS, _pairs),
    "base64 without padding": (ANY, lambda t, _: _b64(t.encode()).rstrip("=")),
    "base64 in a data URL": (ANY, lambda t, _: "data:text/plain;base64," + _b64(t.encode())),
    "base64 of JSON": (ANY, lambda t, _: _b64(json.dumps({"value": t, "n": 1}).encode())),
    "base64 of zlib": (ANY, lambda t, _: _b64(zlib.compress(t.encode()))),
    "base64 three times": (ANY, lambda t, _: _b64(_b64(_b64(t.encode()).encode()).encode())),
    "base85": (ANY, lambda t, _: "base85: " + base64.b85encode(t.encode()).decode()),
    "encoded word of mail": (ANY, lambda t, _: f"=?utf-8?B?{_b64(t.encode())}?="),
    "quoted words of mail": (ANY, lambda t, _: f"=?utf-8?Q?{_soft(t)}?="),
    "hexadecimal with spaces": (ANY, lambda t, _: t.encode().hex(" ")),
    "hexadecimal of utf-16": (ANY, lambda t, _: t.encode("utf-16-be").hex()),
    "xxd": (ANY, _dump),
    "uuencode": (ANY, lambda t, _: _uu(t.encode())),
    "entities with zeros": (ANY, _all("&#{:07d};")),
    "hexadecimal entities, capitals": (ANY, _all("&#X{:04X};")),
    "String.fromCharCode": (ANY, lambda t, _: f"String.fromCharCode({', '.join(_codes(t))})"),
    "chr calls": (ANY, _all("chr({})", " + ")),
    "escapes of CSS": (ANY, _all("\\{:06x}")),
    "octal codes": (ANY, lambda t, _: " ".join(f"{byte:03o}" for byte in t.encode())),
    "percent of some": (ANY, lambda t, _: _some_percent(t)),
    "percent u": (ANY, _all("%u{:04x}")),
    "rot47": (ANY, _rot47),
    "from right to left": (ANY, lambda t, _: f"read it from right to left: {t[::-1]}"),
    "à l'envers": (ANY, lambda t, _: f"écrit à l'envers : {t[::-1]}"),
    "array of pieces": (ANY, lambda t, _: f"[{_pieces(t, 4)}].join('')"),
    "two variables": (ANY, lambda t, _: f"a = '{t[:7]}'; b = '{t[7:]}'; print(a + b)"),
    "at and dot in brackets": (EMAIL, lambda t, _: t.replace("@", "[at]").replace(".", "[dot]")),
    "at and dot in capitals": (EMAIL, lambda t, _: t.replace("@", " AT ").replace(".", " DOT ")),
    "spaces about the signs": (EMAIL, lambda t, _: t.replace("@", " @ ").replace(".", " . ")),
    "ät und punkt": (EMAIL, lambda t, _: t.replace("@", "(ät)").replace(".", "(punkt)")),
}  # fmt: skip


def _soft(text: str) -> str:
    return (
        quopri.encodestring(text.encode(), quotetabs=True, header=True).decode().replace("\n", "")
    )


def _uu(data: bytes) -> str:
    lines = (binascii.b2a_uu(data[place : place + 45]) for place in range(0, len(data), 45))
    return f"begin 644 a\n{b''.join(lines).decode()}`\nend"


def _some_percent(text: str) -> str:
    coded = ("".join(f"%{byte:02X}" for byte in letter.encode()) for letter in text)
    return "".join(
        code if n % 2 else letter for n, (letter, code) in enumerate(zip(text, coded, strict=True))
    )


def _codes(text: str) -> list[str]:
    return [str(ord(letter)) for letter in text]


def _pieces(text: str, size: int) -> str:
    return ", ".join(f"'{text[place : place + size]}'" for place in range(0, len(text), size))


def _parts(value: str, count: int) -> list[str]:
    step = -(-len(value) // count)
    return [value[place : place + step] for place in range(0, len(value), step)]


SPLITS: Mapping[str, Callable[[str], list[str]]] = {
    "five messages": lambda value: _parts(value, 5),
    "numbered messages": lambda value: [
        f"({number}/3) {part}" for number, part in enumerate(_parts(value, 3), 1)
    ],
    "quoted halves": lambda value: [
        f'first part: "{_parts(value, 2)[0]}"', "ok", f'second part: "{_parts(value, 2)[1]}"',
    ],
    "halves on lines of one message": lambda value: ["\n".join(_parts(value, 2))],
    "fields of a record": lambda value: [
        json.dumps({f"part{n}": part for n, part in enumerate(_parts(value, 3), 1)})
    ],
}  # fmt: skip
