"""The result file of a comparison and its picture, complete after every scenario."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from comparison import Pairs
from machine import RESULTS, save
from ratio_chart import Bar, draw
from server import Server


class Report:
    """Grows by a scenario at a time, so that a long measurement can be broken off."""

    def __init__(
        self, model: Path, servers: Sequence[Server], conditions: dict[str, object]
    ) -> None:
        self._model = model
        speculates = conditions.get("speculation") == "auto"
        self._name = f"cpu-{model.stem}{'-speculation' if speculates else ''}"
        self._facts: dict[str, object] = {
            "model": model.name,
            "bytes": model.stat().st_size,
            **conditions,
            "servers": {server.name: server.describe() for server in servers},
        }
        self._results: list[Pairs] = []

    def add(self, pairs: Pairs) -> None:
        """Write both files anew."""
        if not self._results:
            print(f"Results go to {RESULTS / self._name}.json and .svg", file=sys.stderr)
        self._results.append(pairs)
        comparisons = [result.as_json() for result in self._results]
        save(self._name, {**self._facts, "comparisons": comparisons})
        bars = [
            Bar(
                f"{_title(result)}, {figure.label}",
                result.peer,
                result.ratio(figure),
            )
            for result in self._results
            if result.pairs
            for figure in result.scenario.figures
        ]
        picture = RESULTS / f"{self._name}.svg"
        picture.write_text(draw(f"ingle over its peers on a CPU: {self._model.stem}", bars))


def _title(pairs: Pairs) -> str:
    streams = pairs.scenario.streams
    return f"{pairs.scenario.name} × {streams}" if streams > 1 else pairs.scenario.name
