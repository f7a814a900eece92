"""Find a wanted file that is on this machine already, under another name."""

from __future__ import annotations

from collections.abc import Sequence

from ..metadata.digest_cache import DigestCache
from ..metadata.stored_model import StoredModel
from .model_download import WantedModel
from .pull_progress import PullReporter


def find_local_duplicate(
    wanted: WantedModel,
    models: Sequence[StoredModel],
    digests: DigestCache,
    reporter: PullReporter,
) -> StoredModel | None:
    """The model on this machine that has the wanted file, by its SHA-256.

    Files with an unknown digest are hashed if their size matches. Raises `PullCancelled`.
    """
    file = wanted.files[0].file
    if len(wanted.files) > 1 or file.sha256 is None:
        return None
    alike = [model for model in models if model.path.is_file() and file.size in (None, model.size)]
    for model in alike:
        if model.sha256 == file.sha256:
            return model
    if file.size is None:
        return None
    for model in alike:
        if model.sha256 is None and _digest(model, digests, reporter) == file.sha256:
            return model
    return None


def _digest(model: StoredModel, digests: DigestCache, reporter: PullReporter) -> str | None:
    reporter.status("comparing with a file that is here", model.place or "ingle")

    def advance(position: int) -> None:
        reporter.check_cancelled()
        reporter.advance(position, model.size)

    try:
        return digests.digest(model.path, advance)
    except OSError:
        return None  # it is gone, or not readable: then it is fetched
