"""Stores the last benchmark report of each model, for comparison with the next."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from .bench_report import BenchReport, load_report, save_report

log = logging.getLogger(__name__)


class SavedReports:
    """A folder of reports; unreadable ones are ignored."""

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
