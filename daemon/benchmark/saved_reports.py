"""`SavedReports`: the last report of each model, so that the next one can say what changed."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from .bench_report import BenchReport, load_report, save_report

log = logging.getLogger(__name__)


class SavedReports:
    """A folder of reports; one that cannot be read counts as none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, model: str) -> BenchReport | None:
        """The last one of this model."""
        return self._read(self._path(model))

    def all(self) -> list[BenchReport]:
        """The last one of every model."""
        found = (self._read(path) for path in sorted(self._folder.glob("*.json")))
        return [report for report in found if report is not None]

    def keep(self, report: BenchReport) -> None:
        """Put it in the place of the model's last one; raises `OSError`."""
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
            log.warning("The report %s is left out: %s", path, error)
            return None
