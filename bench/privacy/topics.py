"""How many sensitive prompts would leave, and how many harmless ones stay for nothing.

    export PYTHONPATH=bench
    python bench/privacy/topics.py [--save] [--pupa FILE] [--gsm8k FILE] [--mt-bench FILE]
        [--public FOLDER]

Judges every prompt with all detectors and the default policy. The sets of ours are only measured
on: `held_out` are grammars, with up to five prompts a line, and intervals over lines; `second` and
`fresh` are lists, written before the tuning that followed them, whose errors nobody reads. The
outside sets are files of PUPA (csv), GSM8K and MT-Bench (jsonl), if you have them; no text of
theirs is kept. PUPA and MT-Bench are halved by a hash of each prompt's beginning: only errors of
the development half may be read. FOLDER is one that `public_texts.py` filled: of packages that
nothing was trained on, texts of several lengths are judged. With `--save`, what a set gave when it
was measured for the first time is kept beside its present figures.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from fillers import for_measuring
from grammar import Grammar, plain
from machine import RESULTS, save  # bench/, on the path beside this folder

from ingle.daemon.routing.detectors.finding import TextPart
from ingle.daemon.routing.inspection.text_scanner import (
    OwnWords,
    Scanner,
    make_scanner,
)
from ingle.daemon.routing.policy.policy import Policy, Verdict

SEED = 2026
EACH = 5
PUBLIC_LENGTHS = (128, 512, 2048, 8192, 32768)
"""Characters."""
PUBLIC_MOST = 60
_RESAMPLES = 2000
_RESULT = "privacy-topics"
_ALIKE = 48
"""Letters at a prompt's beginning: prompts that share them belong to one half, since they are often
variants.
"""


class Prompts(msgspec.Struct, frozen=True):
    """A set with a verdict that is right: `sensitive`, or not. Prompts of a group are alike."""

    name: str
    sensitive: bool
    groups: tuple[tuple[str, ...], ...]


class Rate(msgspec.Struct, frozen=True):
    """How many of a set were judged wrong, with the 95 % interval of their share."""

    name: str
    sensitive: bool
    prompts: int
    groups: int
    wrong: int
    share: float
    low: float
    high: float
    found_by: dict[str, int]


def own_sets(each: int = EACH) -> list[Prompts]:
    """The held-out, the second and the fresh set."""
    sets: list[Prompts] = []
    for kind in ("sensitive", "harmless"):
        lines: dict[int, list[str]] = {}
        grammar = Grammar.load(f"held_out.{kind}")
        for line, prompt in grammar.prompts(each, SEED, for_measuring(SEED)):
            lines.setdefault(line, []).append(prompt)
        groups = tuple(tuple(prompts) for prompts in lines.values())
        sets.append(Prompts("held_out", kind == "sensitive", groups))
        for name in ("second", "fresh"):
            alone = tuple((prompt,) for prompt in plain(f"{name}.{kind}"))
            sets.append(Prompts(name, kind == "sensitive", alone))
    return sets


def is_held_out(prompt: str) -> bool:
    """Return whether a prompt of PUPA or MT-Bench belongs to the half whose errors are not read."""
    letters = "".join(filter(str.isalpha, prompt.casefold()))[:_ALIKE]
    return hashlib.sha256(letters.encode()).digest()[0] % 2 == 0


def halves(name: str, sensitive: bool, prompts: Sequence[str]) -> list[Prompts]:
    """Both halves of an outside set."""
    return [
        Prompts(
            f"{name}, {half}",
            sensitive,
            tuple((prompt,) for prompt in prompts if is_held_out(prompt) == held),
        )
        for half, held in (("held out", True), ("development", False))
    ]


def outside_sets(pupa: Path | None, gsm8k: Path | None, mt_bench: Path | None) -> list[Prompts]:
    """Those of other people, from the files given."""
    sets: list[Prompts] = []
    if pupa:
        csv.field_size_limit(2**24)
        with pupa.open(newline="") as rows:
            prompts = {row["user_query"] for row in csv.DictReader(rows)}
        sets.extend(halves("PUPA", True, sorted(prompts)))
    if gsm8k:
        questions = tuple((row["question"],) for row in _json_lines(gsm8k))
        sets.append(Prompts("GSM8K", False, questions))
    if mt_bench:
        both_turns = ["\n".join(row["turns"]) for row in _json_lines(mt_bench)]
        sets.extend(halves("MT-Bench", False, both_turns))
    return sets


def public_sets(folder: Path) -> list[Prompts]:
    """Code, manuals, documentation and dictionaries of the packages that are held out."""
    by_source: dict[tuple[str, str], list[str]] = {}
    for row in _json_lines(folder / "held_out.jsonl"):
        sort = row["kind"] if row["kind"] in ("manual", "documentation", "dictionary") else "code"
        name = f"{sort}, {row['language']}" if sort != "code" else "code"
        by_source.setdefault((name, row["source"]), []).append(row["text"])
    found: list[Prompts] = []
    for name in sorted({name for name, _ in by_source}):
        for length in PUBLIC_LENGTHS:
            groups = tuple(
                documents
                for (sort, _), texts in by_source.items()
                if sort == name and (documents := tuple(_stretches(texts, length)))
            )
            if groups:
                found.append(Prompts(f"{name}, {length}", False, groups))
    return found


def _stretches(texts: Sequence[str], length: int) -> Iterator[str]:
    """Up to `PUBLIC_MOST` texts of about this many characters, of neighbouring passages."""
    whole = "\n\n".join(texts)
    for start in range(0, min(len(whole) - length, PUBLIC_MOST * length), length):
        yield whole[start : start + length]


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def measure(prompts: Prompts, scanner: Scanner) -> Rate:
    """Judge every prompt of the set."""
    policy = Policy()
    route = policy.routes["auto"]
    found_by: Counter[str] = Counter()
    groups: list[tuple[int, int]] = []
    for group in prompts.groups:
        wrong = 0
        for prompt in group:
            findings = scanner.scan([TextPart("prompt", prompt)])
            decision = policy.decide(findings, route=route)
            leaves = decision.verdict is Verdict.CLOUD
            wrong += leaves == prompts.sensitive
            if not leaves:
                found_by.update({_family(one.detector) for one in decision.findings})
        groups.append((wrong, len(group)))
    total = sum(size for _, size in groups)
    wrong = sum(count for count, _ in groups)
    low, high = interval(groups)
    return Rate(
        name=prompts.name,
        sensitive=prompts.sensitive,
        prompts=total,
        groups=len(groups),
        wrong=wrong,
        share=round(wrong / total, 4),
        low=low,
        high=high,
        found_by=dict(sorted(found_by.items())),
    )


def interval(groups: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95 % interval of a share, from (wrong, size) of each group.

    By resampling groups; if nothing or everything is wrong, by the rule of three.
    """
    total = sum(size for _, size in groups)
    wrong = sum(count for count, _ in groups)
    if wrong == 0:
        return 0.0, round(3 / len(groups), 4)
    if wrong == total:
        return round(1 - 3 / len(groups), 4), 1.0
    source = random.Random(SEED)
    shares: list[float] = []
    for _ in range(_RESAMPLES):
        drawn = source.choices(groups, k=len(groups))
        shares.append(sum(count for count, _ in drawn) / sum(size for _, size in drawn))
    shares.sort()
    return round(shares[int(0.025 * len(shares))], 4), round(shares[int(0.975 * len(shares))], 4)


def first_measured(rates: Sequence[Rate], saved: Path) -> list[dict[str, Any]]:
    """Each set's figures of the first time that they were saved, with the day (ISO 8601)."""
    kept: list[dict[str, Any]] = []
    if saved.exists():
        kept = json.loads(saved.read_text()).get("first_measured", [])
    known = {(one["name"], one["sensitive"]) for one in kept}
    today = datetime.now(UTC).date().isoformat()
    new = [rate for rate in rates if (rate.name, rate.sensitive) not in known]
    return [*kept, *({"measured": today, **msgspec.to_builtins(rate)} for rate in new)]


def _family(detector: str) -> str:
    prose = ("passages", "names", "topics", "classifier")
    return detector if detector in prose else "structured"


def times(texts: Sequence[str], size: int = 4096) -> dict[str, float]:
    """Milliseconds of processor time for stretches of `size` characters that are new."""
    source = random.Random(SEED)
    spent: list[float] = []
    scanner = make_scanner(OwnWords())
    scanner.scan([TextPart("prompt", "Load all tables.")])
    for _ in range(60):
        pieces: list[str] = []
        while sum(map(len, pieces)) < size:
            pieces.append(source.choice(texts))
        part = TextPart("prompt", " ".join(pieces)[:size])
        start = time.process_time()
        scanner.scan([part])
        spent.append((time.process_time() - start) * 1000)
    return _spread(spent)


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median_ms": round(ordered[len(ordered) // 2], 2),
        "p95_ms": round(ordered[int(0.95 * len(ordered))], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write results/privacy-topics.json")
    parser.add_argument("--pupa", type=Path)
    parser.add_argument("--gsm8k", type=Path)
    parser.add_argument("--mt-bench", type=Path)
    parser.add_argument("--public", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    scanner = make_scanner(OwnWords())
    sets = [*own_sets(), *outside_sets(options.pupa, options.gsm8k, options.mt_bench)]
    if options.public:
        sets += public_sets(options.public)
    rates = [measure(prompts, scanner) for prompts in sets]
    for rate in rates:
        what = "would leave" if rate.sensitive else "kept for nothing"
        print(
            f"{rate.name:21} {rate.prompts:5} prompts: {rate.share:6.1%} {what} "
            f"(95 % {rate.low:.1%} to {rate.high:.1%}); {rate.found_by}"
        )
    spent = times([prompt for one in sets for group in one.groups for prompt in group])
    print(f"4 kB: {spent}")
    if options.save:
        figures: dict[str, object] = {
            "rates": [msgspec.to_builtins(rate) for rate in rates],
            "first_measured": first_measured(rates, RESULTS / f"{_RESULT}.json"),
            "processor_time": spent,
        }
        print(save(_RESULT, figures), file=sys.stderr)


if __name__ == "__main__":
    main()
