"""Texts full of harmless numbers and codes, which a scanner should ignore."""

from __future__ import annotations

import hashlib
import random
import uuid

import fresh_sentences
import unseen_harmless
from faker import Faker

_TUNING = (
    "Order {order} was shipped on {date}, tracking {tracking}.",
    "commit {sha1}\nAuthor: the build\n    fix the cache",
    "sha256:{sha256}",
    "ISBN {isbn} is out of print.",
    "The hotel is at {lat}, {lon}.",
    "pip install numpy=={version}",
    "Compute {a} * {b} + {c}.",
    "A train leaves at {time} and travels {a} km; another leaves {c} minutes later. When do "
    "they meet?",
    "id: {uuid}",
    "def f(password: str, token: str = '') -> int:\n    return {a}",
    "x = [{a}, {b}, {c}, {d}, {a}, {b}]",
    "{date}T{time}:11Z worker-{c} done in 0.{d}s",
    "GDP grew from {big} to {bigger} dollars between 1990 and 2004.",
    "for i in range({a}): total += i ** {c}",
    "color: #{hex6}; width: {a}px; z-index: {d}",
    "The password must have at least {c} characters. Reset your password if you forgot it.",
    "How many tokens does max_tokens={a} allow?",
)
_SECOND = (
    "Invoice INV-{order} over ${a}.{c} is due on {date}.",
    "git revert {sha1short} && git push",
    "integrity sha512-{sha256}",
    "See ISBN-13: {isbn} (chapter {c}).",
    "Center the map on ({lat}, {lon}) with zoom {c}.",
    "Upgrade node from {version} to {version}.",
    "What is {big} divided by {a}?",
    "Maria has {a} apples, gives {c} to each of {d} friends and buys {b} more. How many are left?",
    "trace_id={uuid} span_id={hex16}",
    "assert sorted([{d}, {c}, {b}, {a}]) == [{c}, {d}, {a}, {b}]",
    "| epoch | loss | acc |\n| {c} | 0.{a} | 0.{b} |\n| {d} | 0.{b} | 0.{a} |",
    "[{time}:02.{a}] WARN queue length {b}, retry in {c}s (job {order})",
    "The population rose from {big} in 1950 to {bigger} in 2020.",
    "SELECT * FROM orders WHERE id = {order} LIMIT {c};",
    "ffmpeg -i in.mp4 -vf scale={a}:{b} -crf {c} out.mp4",
    "RFC {a} section {c}.{d}.{c} says that the timeout is {b} ms.",
    "Users forget their password; how should a reset token expire after {c} minutes?",
    "timestamp {epoch}, duration {a} ms, offset {big}",
    "pi is 3.14159265358979323846, e is 2.71828182845904523536",
    "Version {version}.{c} fixes bug #{order}; see PR {a}",
    "Phone cases cost {c} euros and we sold {a} of them in 2023.",
    "The card game has {c} cards; each player draws {d}. Passport control took {a} minutes.",
    "MATCH 12-10, 11-{c}, 9-11; attendance {a},{d}00",
    "{a}x{b} @ {c}Hz, 0x{hex16}, rev {d}",
    "import socket; s.connect(('127.0.0.1', {port})); s.bind(('0.0.0.0', {port}))",
    "const key = event.key; const token = tokens[{c}]; let secret = computeSecret({a});",
)
_HELD_OUT = (
    "Reference {order}, please quote it in your answer.",
    "docker pull app@sha256:{sha256}",
    "build {order} failed at step {c}/{d} after {a} s",
    "the book (ISBN {isbn}) has {b} pages",
    "GPS: {lat} {lon}, altitude {a} m",
    "requires python >= {version}, < {version}",
    "({a} + {b}) * {c} - {d} = ?",
    "A shop sold {a} lamps on Monday and {b} on Tuesday, each for {c} dollars. How much did "
    "it earn?",
    "request-id: {uuid}",
    "matrix([[{a}, {b}], [{c}, {d}]]).det()",
    "{date} {time}:00,{a} DEBUG pool size={c} free={d}",
    "The lake covers {big} square metres; its deepest point is {c}.{d} m.",
    "INSERT INTO items (id, qty, price) VALUES ({order}, {c}, {a}.{d}0);",
    "convert -resize {a}x{b} -quality {c} a.png b.png",
    "In {c} BC, and again in 1453, the city had {big} people.",
    "How do I hash a password with bcrypt cost {c}?",
    "ts={epoch} dur={a} n={big}",
    "1 1 2 3 5 8 13 21 34 55 89 144 233 377 610 987 1597 2584 4181 6765",
    "issue #{c} of PR {a} touches {b} lines (+{a} -{d})",
    "score 3:{c}, {time} local time, row {d}, seat {c}",
    "void f(uint32_t key[{c}]) {{ key[0] = 0x{hex6}; }}",
    "print the report, the account of the battle is on page {a}",
    "the phone has {c} GB of memory and costs {a} dollars",
    "localhost:{port} and http://127.0.0.1:{port}/health answer",
)
_SENTENCES = {
    "tuning": _TUNING,
    "second": _SECOND,
    "held out": _HELD_OUT,
    "fresh": fresh_sentences.HARMLESS,
    "unseen": unseen_harmless.HARMLESS,
}
_SEED = 7


def harmless(split: str, count: int, seed: int = _SEED) -> list[str]:
    """So many texts of one split."""
    source = random.Random(f"{split}-{seed}")
    fake = Faker("en_US")
    fake.seed_instance(f"{split}-{seed}")
    templates = _SENTENCES[split]
    texts: list[str] = []
    for number in range(count):
        slots = _slots(source, fake)
        if split in ("fresh", "unseen"):  # only here, so that the other splits stay as they were
            slots |= {"isbn10": fake.isbn10(), "ean": fake.ean13()}
        texts.append(templates[number % len(templates)].format_map(slots))
    return texts


def _slots(source: random.Random, fake: Faker) -> dict[str, str]:
    digest = hashlib.sha256(source.randbytes(8)).hexdigest()
    return {
        "order": str(source.randrange(10**6, 10**9)),
        "tracking": "1Z" + digest[:6].upper() + str(source.randrange(10**9)),
        "sha1": digest[:40],
        "sha1short": digest[:9],
        "sha256": digest,
        "hex6": digest[:6],
        "hex16": digest[:16],
        "isbn": fake.isbn13(),
        "lat": f"{source.uniform(-90, 90):.6f}",
        "lon": f"{source.uniform(-180, 180):.6f}",
        "version": f"{source.randrange(20)}.{source.randrange(40)}.{source.randrange(20)}",
        "a": str(source.randrange(100, 5000)),
        "b": str(source.randrange(100, 5000)),
        "c": str(source.randrange(2, 60)),
        "d": str(source.randrange(2, 60)),
        "big": f"{source.randrange(10**6, 10**8):,}",
        "bigger": f"{source.randrange(10**8, 10**10):,}",
        "date": fake.date(),
        "time": fake.time("%H:%M"),
        "uuid": str(uuid.UUID(int=source.getrandbits(128))),
        "epoch": str(source.randrange(1_500_000_000_000, 1_800_000_000_000)),
        "port": str(source.randrange(1024, 65535)),
    }
