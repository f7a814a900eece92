"""Benchmark reports: their storage, and the comparison with an earlier one."""

from __future__ import annotations

import hashlib
import logging
import statistics
from pathlib import Path
from typing import Literal, get_args

import msgspec

log = logging.getLogger(__name__)

VERSION = 1

Figure = Literal["prefill", "decode", "first_token"]
"""The attributes of a measurement that are compared; only of `first_token` less is better."""


class Samples(msgspec.Struct, frozen=True):
    """One figure of every run."""

    runs: list[float]

    @property
    def median(self) -> float:
        """The median, which is the reported figure."""
        return statistics.median(self.runs)

    @property
    def spread(self) -> float:
        """Half of the range of all runs, as a share of the median."""
        return (max(self.runs) - min(self.runs)) / 2 / self.median if self.median else 0.0


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One variant: tokens per second, seconds, bytes; or why it could not be measured.

    `prefill` counts all clients' prompt tokens until the last of them has its first token, `decode`
    all clients' further tokens from the first one's first token to the end. `joules` are those of
    all devices with a meter per generated token, `cost_per_million` of a million of them; None if
    there is no meter or no price.
    """

    name: str
    error: str | None = None
    engine: str = ""
    device: str = ""
    reason: str = ""
    prefill: Samples = Samples([])
    decode: Samples = Samples([])
    first_token: Samples = Samples([])
    joules: Samples | None = None
    cost_per_million: float | None = None
    acceptance: float | None = None
    load_seconds: float = 0.0
    predicted_bytes: int = 0
    memory_bytes: int = 0
    gpu_bytes: int = 0


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call: the model, the workload, the machine, and each variant."""

    version: int = VERSION
    model: str
    quantization: str
    parameters: int
    prompt_tokens: int
    answer_tokens: int
    measured: str
    machine: dict[str, str]
    measurements: list[Measurement]

    @property
    def workload(self) -> tuple[int, int]:
        """What every variant computes: tokens of a prompt and of an answer."""
        return self.prompt_tokens, self.answer_tokens


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How one figure of one variant differs from an earlier report's.

    `ratio` is the new median divided by the old one. A change is real if all runs of one report are
    beyond all of the other; with five runs each that happens by chance in 1 of 126 cases.
    """

    name: str
    figure: Figure
    ratio: float
    is_real: bool
    is_better: bool


def compare(new: BenchReport, old: BenchReport) -> list[Change]:
    """Return the changes of every variant that both reports have."""
    before = {measurement.name: measurement for measurement in old.measurements}
    changes: list[Change] = []
    for measurement in new.measurements:
        earlier = before.get(measurement.name)
        if earlier is not None and not (measurement.error or earlier.error):
            changes += _changes(measurement, earlier)
    return changes


def _changes(new: Measurement, old: Measurement) -> list[Change]:
    changes: list[Change] = []
    for figure in get_args(Figure):
        one: Samples = getattr(new, figure)
        other: Samples = getattr(old, figure)
        if not one.runs or not other.runs or not other.median:
            continue
        ratio = one.median / other.median
        apart = min(one.runs) > max(other.runs) or max(one.runs) < min(other.runs)
        changes.append(
            Change(
                name=new.name,
                figure=figure,
                ratio=ratio,
                is_real=apart and min(len(one.runs), len(other.runs)) > 1,
                is_better=(ratio > 1) != (figure == "first_token"),
            )
        )
    return changes


def load_report(path: Path) -> BenchReport:
    """Return a saved report; raises `OSError`, and `ValueError` if the file is not one."""
    try:
        report = msgspec.json.decode(path.read_bytes(), type=BenchReport)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    if report.version != VERSION:
        raise ValueError(f"it is of the version {report.version}")
    return report


def save_report(report: BenchReport, path: Path) -> None:
    """Save it; raises `OSError`."""
    raw = msgspec.json.format(msgspec.json.encode(report))
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(raw + b"\n")
    temporary.replace(path)


class SavedReports:
    """A folder with the last report of each model; unreadable ones are ignored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, model: str) -> BenchReport | None:
        """Return the last report of this model; None if there is none."""
        return self._read(self._path(model))

    def all(self) -> list[BenchReport]:
        """Return the last report of every model."""
        found = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [report for report in found if report is not None]

    def keep(self, report: BenchReport) -> None:
        """Replace the model's last report; raises `OSError`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        save_report(report, self._path(report.model))

    def _path(self, model: str) -> Path:
        return self._folder / f"{hashlib.sha256(model.encode()).hexdigest()[:16]}.json"

    def _read(self, path: Path) -> BenchReport | None:
        try:
            return load_report(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("Ignoring the report %s: %s", path, error)
            return None
