"""How many structured identifiers the scanner finds, and how often it errs.

    export PYTHONPATH=bench
    uv run --group test bench/privacy/identifiers.py [--save]
    uv run --group test bench/privacy/identifiers.py --split fresh --add "fresh, first run"

Five splits with sentences, locales, makers of keys and seeds of their own: the detectors were
improved on `tuning`, then on the misses of `second` and a little on those of `held out`; `fresh`
was written after that without a look at the detectors, and `unseen` likewise after the repairs for
`fresh`: only the first run of each is blind.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import time
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple, Protocol

from harmless_numbers import harmless
from identifier_templates import LONG_BEFORE, LONG_BEHIND, SENTENCES
from identifier_values import Values
from machine import RESULTS, describe, save
from topics import own_sets

from ingle.daemon.routing.detectors.finding import SensitiveFinding, TextPart
from ingle.daemon.routing.inspection.text_scanner import (
    OwnWords,
    Scanner,
    make_scanner,
    structured_detectors,
)

_COVERED = 0.8
_RESULT = RESULTS / "privacy-identifiers.json"
_ONCE = "first run"  # of a split, by its name: that cannot be measured again


class Sample(NamedTuple):
    """A text, and the spans and kinds of its identifiers."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


class Rate(NamedTuple):
    """`hits` of `total`."""

    hits: int
    total: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.hits / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval at 95 %."""
        if not self.total:
            return 0.0, 1.0
        z, share = 1.96, self.share
        middle = share + z * z / (2 * self.total)
        reach = z * sqrt(share * (1 - share) / self.total + z * z / (4 * self.total**2))
        scale = 1 + z * z / self.total
        return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)

    def described(self) -> dict[str, object]:
        """Return values for JSON."""
        low, high = self.interval
        return {
            "hits": self.hits,
            "total": self.total,
            "share": round(self.share, 4),
            "interval": [round(low, 4), round(high, 4)],
        }


class Placed(Protocol):
    """Something with a span in a text."""

    @property
    def start(self) -> int:
        """Return the first character."""
        ...

    @property
    def end(self) -> int:
        """Return the end, exclusive."""
        ...


def scanner() -> Scanner:
    """With the structured detectors only: names and topics are measured elsewhere."""
    return Scanner(structured_detectors(OwnWords()))


def samples(split: str, rounds: int, seed: int = 1) -> list[Sample]:
    """Every template of a split so many times."""
    values = Values(split, seed)
    return [_filled(template, values) for _ in range(rounds) for template in SENTENCES[split]]


def _filled(template: str, values: Values) -> Sample:
    text = values.random.choice(LONG_BEFORE)
    spans: list[tuple[int, int, str]] = []
    for literal, kind, region, _conversion in string.Formatter().parse(template):
        text += literal
        if kind is not None:
            value = values.make(f"{kind}:{region}" if region else kind)
            spans.append((len(text), len(text) + len(value), kind))
            text += value
    return Sample(text + values.random.choice(LONG_BEHIND), tuple(spans))


def found(scan: Scanner, text: str) -> list[SensitiveFinding]:
    """The findings in one text."""
    return scan.scan([TextPart("messages[0].content", text)])


class Measured(NamedTuple):
    """Rates by name, rates by kind, and examples of errors."""

    rates: dict[str, Rate]
    parts: dict[str, Rate]
    wrong: list[str]


def measure(scan: Scanner, split: Sequence[Sample], clean: Sequence[str]) -> Measured:
    """Recall of spans and of prompts, precision of findings, and false alarms on clean texts."""
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    right = false = prompts = 0
    wrong: list[str] = []
    for sample in split:
        findings = found(scan, sample.text)
        prompts += bool(findings)
        for start, end, kind in sample.spans:
            totals[kind] += 1
            hits[kind] += (covered := is_covered(sample.text, start, end, findings))
            if not covered:
                wrong.append(f"missed {kind}: {sample.text[max(0, start - 30) : end + 15]!r}")
        inside = sum(_is_inside(finding, sample.spans) for finding in findings)
        right, false = right + inside, false + len(findings) - inside
    alarms = [(text, findings) for text in clean if (findings := found(scan, text))]
    false += sum(len(findings) for _, findings in alarms)
    wrong += [f"alarm {text!r}: {[f.kind.value for f in findings]}" for text, findings in alarms]
    rates = {
        "span recall": Rate(sum(hits.values()), sum(totals.values())),
        "prompt recall": Rate(prompts, len(split)),
        "precision": Rate(right, right + false),
        "false alarms on harmless prompts": Rate(len(alarms), len(clean)),
    }
    return Measured(rates, {kind: Rate(hits[kind], totals[kind]) for kind in sorted(totals)}, wrong)


def _is_inside(finding: SensitiveFinding, spans: Sequence[tuple[int, int, str]]) -> bool:
    return any(finding.start < end and start < finding.end for start, end, _ in spans)


def is_covered(text: str, start: int, end: int, findings: Sequence[Placed]) -> bool:
    """Whether most letters and digits of a stretch are in findings."""
    places = [place for place in range(start, end) if text[place].isalnum()]
    covered = sum(any(f.start <= place < f.end for f in findings) for place in places)
    return covered >= _COVERED * len(places)


def latency(scan: Scanner, texts: Sequence[str]) -> dict[str, float]:
    """Return milliseconds of processor time for 4 kB made of the texts.

    Each is scanned five times with a different last letter, and the fastest counts, to exclude the
    machine's other load. `first` is the median of the first run of the first twenty texts, when
    most words are new.
    """
    found(scan, texts[0])  # tables are read when they are first needed
    times: list[float] = []
    first: list[float] = []
    source = random.Random(5)
    for _ in range(200):
        text = ""
        while len(text) < 4096:
            text += source.choice(texts) + "\n"
        runs: list[float] = []
        for last in "abcde":
            begin = time.process_time()
            found(scan, text[:4095] + last)
            runs.append(time.process_time() - begin)
        times.append(min(runs) * 1000)
        first.append(runs[0] * 1000)
    times.sort()
    return {
        "first": round(sorted(first[:20])[10], 2),
        "median": round(times[100], 2),
        "p95": round(times[190], 2),
    }


def latencies() -> dict[str, dict[str, dict[str, float]]]:
    """`latency` of the structured detectors and of all, for prompts and two sorts of numbers."""
    texts = {
        "prompts": [prompt for one in own_sets() for group in one.groups for prompt in group],
        "harmless numbers": harmless("held out", 300),
        "full of identifiers": [sample.text for sample in samples("held out", 4)],
    }
    return {
        "structured detectors": {name: latency(scanner(), some) for name, some in texts.items()},
        "all detectors": {
            name: latency(make_scanner(OwnWords()), some) for name, some in texts.items()
        },
    }


def main() -> None:
    """Prints the tables; `--save` writes them beside those of `--add`, which has no latency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--add", metavar="NAME", help="under this name beside what is saved")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--split", choices=tuple(SENTENCES), action="append")
    parser.add_argument("--show", action="store_true", help="what was missed, and false alarms")
    options = parser.parse_args()
    scan = scanner()
    results: dict[str, object] = {}
    for split in options.split or SENTENCES:
        clean = harmless(split, 60 * options.rounds)
        identifiers = measure(scan, samples(split, options.rounds), clean)
        results[split] = {"identifiers": _described(split, identifiers, options.show)}
    if options.add:
        _add(options.add, results)
        return
    milliseconds = latencies()
    print("milliseconds of 4 kB:", milliseconds)
    if options.save:
        first = {name: value for name, value in _saved().items() if name.endswith(_ONCE)}
        save("privacy-identifiers", {**first, **results, "milliseconds of 4 kB": milliseconds})


def _saved() -> dict[str, object]:
    return json.loads(_RESULT.read_text())


def _add(name: str, results: dict[str, object]) -> None:
    """Into the saved figures, which stay as they are; with its own machine and date."""
    added = {**_saved(), name: {"machine": describe(), **results}}
    _RESULT.write_text(json.dumps(added, indent=2) + "\n")


def _described(split: str, measured: Measured, show: bool) -> dict[str, object]:
    """Print the measurements, and return them as plain values."""
    for name, rate in measured.rates.items():
        low, high = rate.interval
        print(f"{split:9} {name:33} {rate.share:.4f} [{low:.4f}, {high:.4f}] of {rate.total}")
    for name, rate in measured.parts.items():
        if rate.share < 1:
            print(f"{'':13} {name:29} {rate.share:.3f} of {rate.total}")
    for line in measured.wrong if show else ():
        print("   ", line)
    rates, parts = (
        {name: rate.described() for name, rate in group.items()}
        for group in (measured.rates, measured.parts)
    )
    return {**rates, "of": parts}


if __name__ == "__main__":
    main()
