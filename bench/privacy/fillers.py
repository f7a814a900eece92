"""The fillers of the grammars' slots; names for training come from faker."""

from __future__ import annotations

import random

from faker import Faker
from grammar import Fillers

_LOCALES = (
    "en_US",
    "en_GB",
    "en_IN",
    "de_DE",
    "fr_FR",
    "es_ES",
    "it_IT",
    "pl_PL",
    "pt_BR",
    "tr_TR",
)
_FIRMS = "Northfield;Brill;Calder;Ostrava;Lumen;Harrow;Kestrel;Vantor;Pineridge;Solvay;Medix;Tarn"
_FORMS = "Ltd;Inc;GmbH;Group;Partners;Logistics;Foods;Clinic;Systems;& Sons;Bank;Holdings"
_SYLLABLES = [
    "tra",
    "vel",
    "min",
    "ko",
    "zen",
    "lu",
    "pri",
    "mo",
    "fin",
    "tek",
    "ar",
    "so",
    "na",
    "vi",
    "del",
    "qua",
    "rem",
    "bio",
    "lo",
    "gen",
    "ta",
    "sy",
    "ix",
    "ra",
    "mel",
    "gro",
    "pay",
    "hub",
    "dex",
    "san",
    "fer",
    "ol",
    "ti",
    "ca",
    "bri",
    "no",
    "wen",
    "dro",
    "sha",
    "mi",
    "que",
    "li",
    "jor",
    "ham",
    "zo",
    "pul",
    "fa",
]
_ENGLISH_MONTHS = "January;February;March;April;May;June;July;August;September;October;November"
_ENGLISH_DAYS = "Monday;Tuesday;Wednesday;Thursday;Friday;Saturday"


def for_training(seed: int) -> Fillers:
    """Slots of the corpora `train`."""
    source = random.Random(seed)
    fake = Faker(_LOCALES)
    Faker.seed(seed)
    firms, forms = _FIRMS.split(";"), _FORMS.split(";")
    return {
        **_numbers(source),
        "first": [fake.first_name() for _ in range(800)],
        "last": [fake.last_name() for _ in range(800)],
        "city": [fake.city() for _ in range(300)],
        "street": [fake.street_address().replace("\n", " ") for _ in range(200)],
        "org": [f"{source.choice(firms)} {source.choice(forms)}" for _ in range(100)]
        + [fake.company() for _ in range(300)],
        "brand": [_brand(source) for _ in range(500)],
    }


def _brand(source: random.Random) -> str:
    """A name that no list has: two or three syllables, written as firms write theirs."""
    parts = [source.choice(_SYLLABLES) for _ in range(source.choice((2, 2, 3)))]
    name = "".join(parts)
    shape = source.random()
    if shape < 0.25:
        return name.lower()
    if shape < 0.35:
        return name.upper()
    return name.capitalize() if shape < 0.85 else "".join(map(str.capitalize, parts))


# None of these people, firms and places are in the training's lists by intention.
_FIRST = (
    "Ifeoma;Brannagh;Tuulikki;Aurelio;Wren;Siobhan;Dmitri;Quang;Leocadia;Hamza;Perpetua;Odile;"
    "Rune;Xiomara;Bashir;Gwyneth;Piotr;Anneliese;Kofi;Marisol;Thaddeus;Noor;Yusra;Corentin"
)
_LAST = (
    "Adeyemi-Clarke;O'Malley;Virtanen;Castellanos;Thornbury;Nakagawa;Petrenko;Nguyen;Achterberg;"
    "Okonjo;Lindqvist;Abernathy;Ravenscroft;Szymborski;Delacroix;Haddad;Ferreira;Wojcik;Mbeki"
)
_OTHER_FIRMS = (
    "Greenlea Dental;Oakmoor Joinery;Tessellate Labs;Riverbend Care Home;Blau & Weiss;Atelier Nord;"
    "Polaris Freight;Hartmann Optik;Casa Verde;Midland Tram Works;St Brigid's;Quill and Co"
)
_CITIES = "Kettering;Fargo;Tampere;Ghent;Wuppertal;Clermont-Ferrand;Albacete;Enugu;Da Nang;Cork"
_STREETS = (
    "14 Larkspur Close;7b Fenner Road;Rosenweg 9;33 rue des Lilas;Calle del Pez 12;901 Cedar Ave"
)


def for_measuring(seed: int) -> Fillers:
    """Slots of the corpora that are only measured on."""
    return {
        **_numbers(random.Random(seed)),
        "first": _FIRST.split(";"),
        "last": _LAST.split(";"),
        "city": _CITIES.split(";"),
        "street": _STREETS.split(";"),
        "org": _OTHER_FIRMS.split(";"),
    }


def _numbers(source: random.Random) -> Fillers:
    months, days = _ENGLISH_MONTHS.split(";"), _ENGLISH_DAYS.split(";")
    amounts = [source.randint(2, 90) * source.choice((10, 100, 1000)) for _ in range(200)]
    shapes = ("${:,}", "€{:,}", "{:,} euros", "£{:,}", "{}", "{} dollars", "{} EUR")
    return {
        "n": [str(source.randint(2, 99)) for _ in range(80)],
        "age": [str(source.randint(13, 88)) for _ in range(60)],
        "year": [str(source.randint(1990, 2026)) for _ in range(30)],
        "amount": [source.choice(shapes).format(amount) for amount in amounts],
        "month": months,
        "weekday": days,
        "date": [
            f"{source.randint(1, 28)} {source.choice(months)} {source.randint(1950, 2026)}"
            for _ in range(60)
        ],
    }
