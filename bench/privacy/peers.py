"""Our structured detectors beside Microsoft Presidio's, on the same texts in the same run.

    PYTHONPATH=bench uv run --group test bench/privacy/peers.py [--spacy FOLDER] [--save]

Presidio runs in an environment of its own that is made in the user's cache, with all of its
recognisers for English that need no model (`presidio_child.py`). Only kinds that both know count
here, and of Presidio's findings neither web addresses nor dates are taken for alarms.

FOLDER is that of a spaCy model, such as en_core_web_md. With it, the share of English prompts in
which each finds something is measured instead: what a rule "keep what has a finding" would keep.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from day import prompts_of_day
from harmless_numbers import harmless
from identifier_templates import SENTENCES
from identifiers import Rate, found, is_covered, samples, scanner
from machine import save
from peer_environment import python_program
from topics import Prompts, own_sets

from ingle.daemon.routing.detectors.finding import TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, make_scanner
from ingle.daemon.routing.policy.policy import Policy, Verdict

PRESIDIO = "2.2.366"
LEAST_SCORE = 0.4
"""The threshold of Presidio's own examples; below it every row of digits is a bank account."""
KINDS = ("card", "iban", "email", "us_ssn", "ipv4", "ipv6", "phone", "bitcoin")
NO_ALARM = frozenset({"URL", "DATE_TIME"})


class Span(NamedTuple):
    """A finding of Presidio."""

    start: int
    end: int
    kind: str


class Presidio:
    """Asks the other process, one text after another."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def analyze(self, text: str) -> tuple[list[Span], float]:
        """Return the findings in the text, and the seconds of processor time taken."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(text) + "\n")
        self._child.stdin.flush()
        spans, seconds = json.loads(self._child.stdout.readline())
        return [Span(*span) for span in spans if span[2] not in NO_ALARM], seconds


@contextmanager
def presidio(spacy: Path | None = None) -> Generator[Presidio]:
    """Yield a running Presidio; `spacy` is the folder of its model."""
    python = python_program("presidio-analyzer", PRESIDIO) / "python"
    program = Path(__file__).with_name("presidio_child.py")
    with subprocess.Popen(
        [python, program, str(LEAST_SCORE), *([spacy] if spacy else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        yield Presidio(child)
        child.kill()


def compare(peer: Presidio, split: str, rounds: int) -> dict[str, dict[str, Rate]]:
    """Of the kinds that both know: recall by kind, and harmless prompts with an alarm."""
    scan = scanner()
    totals: Counter[str] = Counter()
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    for sample in samples(split, rounds):
        wanted = [span for span in sample.spans if span[2] in KINDS]
        if not wanted:
            continue
        own, other = found(scan, sample.text), peer.analyze(sample.text)[0]
        for start, end, kind in wanted:
            totals[kind] += 1
            ours[kind] += is_covered(sample.text, start, end, own)
            theirs[kind] += is_covered(sample.text, start, end, other)
    clean = harmless(split, 300)
    alarms = sum(bool(found(scan, text)) for text in clean)
    other_alarms = sum(bool(peer.analyze(text)[0]) for text in clean)
    both = {
        kind: (Rate(ours[kind], totals[kind]), Rate(theirs[kind], totals[kind])) for kind in totals
    }
    both["all of these"] = Rate(ours.total(), totals.total()), Rate(theirs.total(), totals.total())
    both["alarms"] = Rate(alarms, len(clean)), Rate(other_alarms, len(clean))
    return {name: {"ingle": own, "presidio": other} for name, (own, other) in both.items()}


def prompts_kept(peer: Presidio, prompts: Prompts, scan: Scanner) -> dict[str, Rate]:
    """How many of these, without those of other scripts, would be kept for a finding."""
    english = [text for group in prompts.groups for text in group if text.isascii()]
    policy = Policy()
    route = policy.routes["auto"]
    ours = sum(
        policy.decide(scan.scan([TextPart("prompt", text)]), route=route).verdict
        is not Verdict.CLOUD
        for text in english
    )
    theirs = sum(bool(peer.analyze(text)[0]) for text in english)
    return {"ingle": Rate(ours, len(english)), "presidio": Rate(theirs, len(english))}


def times(peer: Presidio, texts: Sequence[str], count: int = 60) -> dict[str, float]:
    """Milliseconds of processor time for 4 kB, in turn, and Presidio's share of ours."""
    scan, source = scanner(), random.Random(5)
    own: list[float] = []
    other: list[float] = []
    for number in range(count + 10):
        text = ""
        while len(text) < 4096:
            text += source.choice(texts) + "\n"
        begin = time.process_time()
        found(scan, text[:4096])
        spent = time.process_time() - begin
        theirs = peer.analyze(text[:4096])[1]
        if number >= 10:  # the first wake both
            own.append(spent * 1000)
            other.append(theirs * 1000)
    return {
        "ingle": round(median(own), 2),
        "presidio": round(median(other), 2),
        "presidio / ingle": round(median(other) / median(own), 2),
    }


def compare_prompts(model: Path, *, save_it: bool) -> None:
    """Print, for each of our sets and the day's prompts, how much each keeps."""
    day = [
        Prompts(
            f"day, {fit}",
            fit != "leaves",
            tuple((f"{one.text}\n{one.result}",) for one in prompts_of_day() if one.fit == fit),
        )
        for fit in ("leaves", "asks", "stays")
    ]
    scan = make_scanner(OwnWords())
    rows: list[dict[str, object]] = []
    with presidio(model) as peer:
        for prompts in (*own_sets(), *day):
            kept = prompts_kept(peer, prompts, scan)
            row: dict[str, object] = {"set": prompts.name, "sensitive": prompts.sensitive}
            rows.append(row | {who: rate.described() for who, rate in kept.items()})
            print(rows[-1])
    if save_it:
        save("privacy-peers-prompts", {"presidio": PRESIDIO, "spacy": model.name, "sets": rows})


def main() -> None:
    """Prints the tables; `--save` writes them too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spacy", type=Path)
    options = parser.parse_args()
    if options.spacy:
        compare_prompts(options.spacy, save_it=options.save)
        return
    prompts = [prompt for one in own_sets() for group in one.groups for prompt in group]
    with presidio() as peer:
        splits = {split: compare(peer, split, options.rounds) for split in SENTENCES}
        milliseconds = times(peer, prompts)
    for split, rates in splits.items():
        for name, rate in rates.items():
            shares = {who: round(one.share, 4) for who, one in rate.items()}
            print(f"{split:9} {name:14} {shares}")
    print("milliseconds of 4 kB:", milliseconds)
    if options.save:
        described = {
            split: {
                name: {who: one.described() for who, one in rate.items()}
                for name, rate in rates.items()
            }
            for split, rates in splits.items()
        }
        save("privacy-peers", {"presidio": PRESIDIO, "splits": described, "times": milliseconds})


if __name__ == "__main__":
    main()
