"""Generated prompts that each contain something that stays here, and a unique marker.

Internal hosts are none: they leave with placeholders (class `mask`).
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator

WRAPPINGS = (
    "{} Please rewrite this politely. Ref {}.",
    "Translate into French: {} ({})",
    "Summarise for me.\n\n---\n{}\n---\n{}",
    "{}\nIs anything wrong with that? {}",
    "def f():\n    return '''{}'''  # {}",
)
HARMLESS = (
    "How do tides work?",
    "Why is the sky blue?",
    "Explain how a hash table works.",
    "What is the difference between speed and velocity?",
    "How many legs does a spider have?",
)


def canaries(count: int, seed: int = 9) -> Iterator[tuple[str, str]]:
    """`count` pairs of a marker and a prompt; the marker occurs in that prompt only."""
    rng = random.Random(seed)
    makers = list(MAKERS.values())
    for number in range(count):
        mark = f"cnry{number:06d}q"
        thing = makers[number % len(makers)](rng)
        yield mark, rng.choice(WRAPPINGS).format(thing, mark)


def _letters(rng: random.Random, count: int, alphabet: str = string.ascii_letters) -> str:
    return "".join(rng.choices(alphabet, k=count))


def _digits(rng: random.Random, count: int) -> str:
    return _letters(rng, count, string.digits)


def _card(rng: random.Random) -> str:
    body = "4" + _digits(rng, 14)
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    number = body + str(-total % 10)
    blocks = rng.choice([" ", "-", ""]).join(number[n : n + 4] for n in range(0, 16, 4))
    return f"My credit card is {blocks}."


def _iban(rng: random.Random) -> str:
    account = _digits(rng, 18)
    check = 98 - int(account + "131400") % 97
    iban = f"DE{check:02d}{account}"
    return "Send it to " + " ".join(iban[n : n + 4] for n in range(0, 22, 4)) + "."


def _email(rng: random.Random) -> str:
    name = _letters(rng, 7, string.ascii_lowercase)
    return f"Write to {name}@{_letters(rng, 8, string.ascii_lowercase)}.fabrikam.org."


def _aws(rng: random.Random) -> str:
    return f"key: AKIA{_letters(rng, 16, string.ascii_uppercase + '234567')}"


def _github(rng: random.Random) -> str:
    return f"export TOKEN=ghp_{_letters(rng, 36, string.ascii_letters + string.digits)}"


def _jwt(rng: random.Random) -> str:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    claims = f'{{"sub":"{_digits(rng, 9)}","name":"x"}}'
    signature = _letters(rng, 43, string.ascii_letters + string.digits)
    head = part('{"alg":"HS256","typ":"JWT"}')
    return f"Bearer {head}.{part(claims)}.{signature}"


def _private_key(rng: random.Random) -> str:
    lines = "\n".join(_letters(rng, 64) for _ in range(4))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"


def _password(rng: random.Random) -> str:
    return f'password = "{_letters(rng, 6)}!{_digits(rng, 4)}{_letters(rng, 4)}"'


def _phone(rng: random.Random) -> str:
    return f"Call me at +49 30 {_digits(rng, 4).replace('0', '2')} {_digits(rng, 4)}."


def _ssn(rng: random.Random) -> str:
    area, group, serial = (
        rng.randint(200, 600),
        rng.randint(10, 99),
        rng.randint(1000, 9999),
    )
    return f"My SSN is {area}-{group}-{serial}."


def _marked(rng: random.Random) -> str:
    return f"This is confidential, do not share: the offer is {_digits(rng, 5)}."


def _health(rng: random.Random) -> str:
    illness = rng.choice(["diabetes", "breast cancer", "HIV", "depression", "epilepsy"])
    return f"I was diagnosed with {illness} {rng.randint(2, 9)} weeks ago and my doctor is worried."


MAKERS: dict[str, Callable[[random.Random], str]] = {
    "card": _card,
    "iban": _iban,
    "email": _email,
    "aws": _aws,
    "github": _github,
    "jwt": _jwt,
    "private key": _private_key,
    "password": _password,
    "phone": _phone,
    "ssn": _ssn,
    "marked": _marked,
    "health": _health,
}
