"""Find smaller models on this machine that can draft tokens for another."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ModelError
from ..metadata.model_vocabulary import Vocabulary, read_vocabulary
from ..metadata.stored_model import StoredModel
from ..model_task import ModelTask

_LARGEST_SHARE = 0.5
_BEST_SHARE = 0.1
"""A draft model of a tenth of the size is cheap, and its drafts are often accepted."""


@dataclass(slots=True)
class DraftFinder:
    """Compares vocabularies, each of which is read once unless its file changes."""

    _known: dict[Path, tuple[int, Vocabulary | None]] = field(
        default_factory=dict[Path, "tuple[int, Vocabulary | None]"]
    )

    def find(self, model: StoredModel, others: Iterable[StoredModel]) -> list[StoredModel]:
        """Those of `others` that can draft for `model`, the best first; reads files."""
        if model.task is not ModelTask.GENERATE or not model.parameters:
            return []
        small = [
            other
            for other in others
            if other.task is ModelTask.GENERATE
            and other.path.is_dir() == model.path.is_dir()  # one engine runs both
            and 0 < other.parameters <= _LARGEST_SHARE * model.parameters
        ]
        if not small or (vocabulary := self._vocabulary(model.path)) is None:
            return []
        found = [
            other
            for other in small
            if (its := self._vocabulary(other.path)) is not None and vocabulary.matches(its)
        ]
        return sorted(found, key=lambda other: _distance(model, other))

    def _vocabulary(self, path: Path) -> Vocabulary | None:
        try:
            stamp = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            vocabulary = None
            with suppress(ModelError, ValueError):  # a damaged model cannot draft
                vocabulary = read_vocabulary(path)
            known = self._known[path] = (stamp, vocabulary)
        return known[1]


def _distance(model: StoredModel, draft: StoredModel) -> tuple[float, str]:
    return abs(math.log(draft.parameters / (_BEST_SHARE * model.parameters))), draft.name
