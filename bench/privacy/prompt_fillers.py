"""Values for the slots of the prompts' grammars, in the language and country of each."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence

from faker import Faker

LOCALES = {
    "en": ("en_US", "en_GB", "en_IN", "en_AU", "en_IE"),
    "de": ("de_DE", "de_AT"),
    "fr": ("fr_FR", "fr_CA"),
    "es": ("es_ES", "es_MX"),
    "it": ("it_IT",),
    "pt": ("pt_BR", "pt_PT"),
    "nl": ("nl_NL",),
    "pl": ("pl_PL",),
    "ru": ("ru_RU",),
    "tr": ("tr_TR",),
    "sv": ("sv_SE",),
    "zh": ("zh_CN",),
    "ja": ("ja_JP",),
    "ko": ("ko_KR",),
    "ar": ("ar_SA",),
    "hi": ("hi_IN",),
}
_ELSEWHERE = ("en_US", "tr_TR", "pl_PL", "es_MX", "fr_FR", "en_IN", "hr_HR", "fi_FI")
_ABROAD = 0.12
"""Share of names and firms from other countries."""

_CURRENCIES = {
    "en": ("${}", "${}", "£{}", "{} dollars", "{}k"),
    "zh": ("{}元", "{}块", "¥{}"),
    "ja": ("{}円",),
    "ko": ("{}원", "{}만원"),
    "ru": ("{} руб", "{} ₽", "{} тысяч"),
    "tr": ("{} TL", "{} lira"),
    "pl": ("{} zł",),
    "sv": ("{} kr",),
    "hi": ("₹{}", "{} रुपये"),
    "ar": ("{} ريال", "{} جنيه"),
    "pt": ("R$ {}", "{} reais", "{} €"),
}
_EURO = ("{} €", "{} Euro", "€{}")
_WORDS = """
hunter dragon sunshine otter maple coffee winter hund katze zitrone schmetterling soleil framboise
chocolat perico tequiero estrella farfalla juventus gatinho saudade tulp fiets kwiatek misiek
solnyshko privet kedi galatasaray sommar woaini sakura bamboo tiger rocket qwerty letmein liverpool
blue monkey garden kitchen orange pepper stormy wizard baby
""".split()  # noqa: SIM905 - a list of words to be read
_SIGNS = "!@#$%&*?._-+"


class Fillers:
    """Draws values; the same seed gives the same ones."""

    def __init__(self, language: str, seed: int) -> None:
        self._language = language
        self._draw = random.Random(f"{seed} fillers {language}")
        self._here = [Faker(locale) for locale in LOCALES[language]]
        self._away = [Faker(locale) for locale in _ELSEWHERE]
        for number, fake in enumerate((*self._here, *self._away)):
            fake.seed_instance(seed + number)

    def __call__(self, slot: str) -> str:
        """Return a value of the slot; raises KeyError for an unknown one."""
        draw = self._draw
        match slot:
            case "first" | "last":
                fake = self._fake()
                return fake.first_name() if slot == "first" else fake.last_name()
            case "org":
                return self._fake().company()
            case "street":
                return draw.choice(self._here).street_address().replace("\n", ", ")
            case "city" | "postcode":
                fake = draw.choice(self._here)
                return fake.city() if slot == "city" else fake.postcode()
            case "phone":
                return draw.choice(self._here).phone_number()
            case "email":
                return self._away[0].email()
            case "user":
                return self._away[0].user_name()
            case "secret":
                return self._secret()
            case _:
                return self._number(slot)

    def _fake(self) -> Faker:
        away = self._draw.random() < _ABROAD
        return self._draw.choice(self._away if away else self._here)

    def _number(self, slot: str) -> str:
        draw, here = self._draw, self._here[0]
        match slot:
            case "n":
                return str(draw.choice((draw.randint(2, 9), draw.randint(2, 30))))
            case "age":
                return str(draw.randint(6, 88))
            case "pin":
                return "".join(draw.choices(string.digits, k=draw.choice((4, 4, 4, 5, 6, 8))))
            case "number":
                return self._reference()
            case "amount":
                amount = draw.randint(2, 98) * draw.choice((10, 100, 1000))
                written = f"{amount:,}".replace(",", draw.choice((",", ".", " ", "")))
                return draw.choice(_CURRENCIES.get(self._language, _EURO)).format(written)
            case "date":
                return here.date(draw.choice(("%d.%m.%Y", "%Y-%m-%d", "%d/%m/%Y", "%d %b")))
            case "dob":
                born = here.date_of_birth(minimum_age=1, maximum_age=95)
                return born.strftime(draw.choice(("%d.%m.%Y", "%Y-%m-%d", "%d/%m/%y", "%d %B %Y")))
            case "month" | "weekday":
                return here.month_name() if slot == "month" else here.day_of_week()
            case "time":
                return f"{draw.randint(0, 23)}:{draw.choice(('00', '15', '30', '45'))}"
            case _:
                raise KeyError(slot)

    def _reference(self) -> str:
        """A number of an account, a member, a case."""
        draw = self._draw
        shape = draw.choice(("######", "####-##", "########", "??-#####", "?###/##", "#### ####"))
        shape = draw.choice((shape, "??######", "#-###-###", "##/####/?", "???####"))
        return "".join(
            draw.choice(string.digits)
            if sign == "#"
            else draw.choice(string.ascii_uppercase)
            if sign == "?"
            else sign
            for sign in shape
        )

    def _secret(self) -> str:
        """A password as people choose them, or as a program makes them."""
        draw = self._draw
        word = self._cased(draw.choice(_WORDS))
        number = str(draw.choice((draw.randint(1, 99), draw.randint(1950, 2026))))
        match draw.randint(0, 7):
            case 0 | 1:
                return word + number
            case 2:
                return word + draw.choice(_SIGNS) + number
            case 3:
                return word + number + draw.choice(_SIGNS)
            case 4:
                leet = str.maketrans("aeio", draw.choice(("43!0", "@310")))
                return word.translate(leet) + number
            case 5:
                return (
                    word + draw.choice(("", "-", "_", "3", ".")) + self._cased(draw.choice(_WORDS))
                )
            case 6:
                return self._among(string.ascii_letters + string.digits, 8, 16)
            case _:
                return self._among(string.ascii_letters + string.digits + _SIGNS, 8, 14)

    def _cased(self, word: str) -> str:
        return self._draw.choice((word, word, word.capitalize(), word.capitalize(), word.upper()))

    def _among(self, letters: Sequence[str], least: int, most: int) -> str:
        return "".join(self._draw.choices(letters, k=self._draw.randint(least, most)))
