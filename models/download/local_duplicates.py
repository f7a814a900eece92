"""Find a wanted file that is on this machine already, under another name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..metadata.digest_cache import DigestCache
from ..metadata.manifest import Manifest
from ..metadata.stored_model import StoredModel
from ..sources.download_source import Cancelled, raise_if_cancelled
from .file_download import Fetched
from .model_download import WantedModel, manifest_of
from .pull_progress import PullReporter


def find_local_duplicate(
    wanted: WantedModel,
    models: Sequence[StoredModel],
    digests: DigestCache,
    reporter: PullReporter,
    cancelled: Cancelled,
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
        if model.sha256 is None and _digest(model, digests, reporter, cancelled) == file.sha256:
            return model
    return None


def link_local_duplicate(wanted: WantedModel, folder: Path, twin: StoredModel) -> Manifest | None:
    """The wanted model, made from the duplicate; None if it must be fetched after all.

    Files of other programs are used in place. Files of the store get a second link, so that either
    model can be removed without the other. Raises `OSError`, and `ModelError` for a damaged file.
    """
    file = wanted.files[0].file
    if twin.place:
        return in_place_manifest(wanted.name, twin, file.sha256 or "")
    path = folder / file.name
    path.unlink(missing_ok=True)
    try:
        os.link(twin.path, path)
    except OSError:  # another disk, or one without such links
        return None
    return manifest_of(wanted, folder, [Fetched(path, file.sha256 or "", twin.source)])


def in_place_manifest(name: str, model: StoredModel, sha256: str) -> Manifest:
    """The manifest of a model that lies outside the store, under a name of the store."""
    return Manifest(
        name=name,
        file="",
        path=str(model.path),
        place=model.place,
        size=model.size,
        sha256=sha256,
        licence=model.licence,
        description=model.description,
        parameters=model.parameters,
        quantization=model.quantization,
        architecture=model.architecture,
        context=model.context,
        chat=model.chat,
        sampling=model.sampling,
        source=model.source,
        task=model.task,
        system=model.system,
        messages=model.messages,
        options=model.options,
    )


def _digest(
    model: StoredModel, digests: DigestCache, reporter: PullReporter, cancelled: Cancelled
) -> str | None:
    reporter.status("comparing with a file that is here", model.place or "ingle")
    try:
        return digests.digest(model.path, _progress(model, reporter, cancelled))
    except OSError:
        return None  # it is gone, or not ours to read: then it is fetched


def _progress(
    model: StoredModel, reporter: PullReporter, cancelled: Cancelled
) -> Callable[[int], None]:
    def advance(position: int) -> None:
        raise_if_cancelled(cancelled)
        reporter.advance(position, model.size)

    return advance
