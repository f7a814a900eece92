"""Prompts with something sensitive in each, made from a seed; none of it belongs to anybody."""

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
    """So many (mark, prompt); the mark stands in the prompt, and in no other one."""
    chance = random.Random(seed)
    makers = list(MAKERS.values())
    for number in range(count):
        mark = f"cnry{number:06d}q"
        thing = makers[number % len(makers)](chance)
        yield mark, chance.choice(WRAPPINGS).format(thing, mark)


def _letters(chance: random.Random, count: int, alphabet: str = string.ascii_letters) -> str:
    return "".join(chance.choices(alphabet, k=count))


def _digits(chance: random.Random, count: int) -> str:
    return _letters(chance, count, string.digits)


def _card(chance: random.Random) -> str:
    body = "4" + _digits(chance, 14)
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    number = body + str(-total % 10)
    blocks = chance.choice([" ", "-", ""]).join(number[n : n + 4] for n in range(0, 16, 4))
    return f"My credit card is {blocks}."


def _iban(chance: random.Random) -> str:
    account = _digits(chance, 18)
    check = 98 - int(account + "131400") % 97
    iban = f"DE{check:02d}{account}"
    return "Send it to " + " ".join(iban[n : n + 4] for n in range(0, 22, 4)) + "."


def _email(chance: random.Random) -> str:
    name = _letters(chance, 7, string.ascii_lowercase)
    return f"Write to {name}@{_letters(chance, 8, string.ascii_lowercase)}.example.com."


def _aws(chance: random.Random) -> str:
    return f"key: AKIA{_letters(chance, 16, string.ascii_uppercase + '234567')}"


def _github(chance: random.Random) -> str:
    return f"export TOKEN=ghp_{_letters(chance, 36, string.ascii_letters + string.digits)}"


def _jwt(chance: random.Random) -> str:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    claims = f'{{"sub":"{_digits(chance, 9)}","name":"x"}}'
    signature = _letters(chance, 43, string.ascii_letters + string.digits)
    head = part('{"alg":"HS256","typ":"JWT"}')
    return f"Bearer {head}.{part(claims)}.{signature}"


def _private_key(chance: random.Random) -> str:
    lines = "\n".join(_letters(chance, 64) for _ in range(4))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"


def _password(chance: random.Random) -> str:
    return f'password = "{_letters(chance, 6)}!{_digits(chance, 4)}{_letters(chance, 4)}"'


def _phone(chance: random.Random) -> str:
    return f"Call me at +49 30 {_digits(chance, 4).replace('0', '2')} {_digits(chance, 4)}."


def _ssn(chance: random.Random) -> str:
    area, group, serial = (
        chance.randint(200, 600),
        chance.randint(10, 99),
        chance.randint(1000, 9999),
    )
    return f"My SSN is {area}-{group}-{serial}."


def _address(chance: random.Random) -> str:
    host = chance.choice(["db", "mail"])
    return f"The server {host}.corp.internal has 10.1.{chance.randint(1, 250)}.7."


def _marked(chance: random.Random) -> str:
    return f"This is confidential, do not share: the offer is {_digits(chance, 5)}."


def _health(chance: random.Random) -> str:
    illness = chance.choice(["diabetes", "breast cancer", "HIV", "depression", "epilepsy"])
    return (
        f"I was diagnosed with {illness} {chance.randint(2, 9)} weeks ago and my doctor is worried."
    )


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
    "internal host": _address,
    "marked": _marked,
    "health": _health,
}
