"""Compare installed models with what their sources have now, and bring the new version."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from ..download.pull_progress import OnPullProgress, PullReporter
from ..errors import ModelNotFound, SourceUnavailable, UnsupportedModel
from ..metadata.manifest import Manifest, load_manifest
from ..metadata.stored_model import StoredModel
from ..model_reference import HubReference, parse_reference
from ..sources.download_source import Cancelled
from ..sources.partial_file import disk_failure
from .model_versions import ModelVersions, version_id

if TYPE_CHECKING:
    from ..download.model_download import WantedModel
    from .model_store import ModelStore


class ModelUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the source of a model has another file now; `reason` explains `unknown`.

    Sizes in bytes: `size` of the version in use, `new_size` of the source's, `download` of what is
    not here; None where the source states no size.
    """

    name: str
    state: Literal["current", "changed", "unknown"]
    reason: str = ""
    size: int = 0
    new_size: int | None = None
    download: int | None = None


def find_update(store: ModelStore, model: StoredModel) -> ModelUpdate:
    """Compare one model; the hub is asked about its own models, and the catalog about others.

    Blocks. Raises `Offline`.
    """
    wanted = _wanted(store, model)
    if isinstance(wanted, ModelUpdate):
        return wanted
    here = load_manifest(store.folders.path(model.name))
    stated = _stated(wanted)
    if not stated:
        return _unknown(model, "its repository states no digests")
    if all(here.digests.get(name) == digest for name, digest in stated.items()):
        return ModelUpdate(name=model.name, state="current", size=model.size, download=0)
    kept = _kept(ModelVersions(store.folders.path(model.name)), wanted) is not None
    sizes = [
        each.file.size
        for each in wanted.files
        if not kept
        and (not each.file.sha256 or here.digests.get(each.file.name) != each.file.sha256)
    ]
    known = [size for size in sizes if size is not None]
    return ModelUpdate(
        name=model.name,
        state="changed",
        size=model.size,
        new_size=wanted.size,
        download=sum(known) if len(known) == len(sizes) else None,
    )


def update_model(
    store: ModelStore,
    model: StoredModel,
    on_progress: OnPullProgress = lambda progress: None,
    cancelled: Cancelled = lambda: False,
) -> StoredModel:
    """Put the source's version of a model in use, and keep the one that was; blocks.

    Until the new version is whole, the old one is in use. Does nothing if there is no other.
    Raises `UnsupportedModel` for a model without a source, `ModelInUse`, and what
    `FileDownload.run` raises.
    """
    PullReporter(model.name, None, on_progress).status("resolving")
    store.check_online(model.name)
    wanted = _wanted(store, model)
    if isinstance(wanted, ModelUpdate):
        raise UnsupportedModel(f"{model.name} cannot be updated: {wanted.reason}.")
    reporter = PullReporter(wanted.name, wanted.size, on_progress, cancelled, wanted.task)
    try:
        with store.folders.claim(model.name) as folder:
            versions = ModelVersions(folder)
            manifest = _kept(versions, wanted) or _download(wanted, versions, reporter)
            if manifest.digests != load_manifest(folder).digests:
                versions.use(manifest)
    except OSError as error:
        raise disk_failure(error, store.root) from error
    return store.resolve(model.name)


def roll_back(store: ModelStore, model: StoredModel) -> StoredModel:
    """Put the kept version of a model in use, and keep the one that was.

    Raises `ModelNotFound` if none is kept, and `ModelInUse`.
    """
    try:
        with store.folders.claim(model.name) as folder:
            versions = ModelVersions(folder)
            if not (kept := versions.kept()):
                raise ModelNotFound(
                    f"No other version of {model.name} is kept.",
                    hint="Only a version that `ingle update` replaced is kept.",
                )
            versions.use(kept[0])
    except OSError as error:
        raise disk_failure(error, store.root) from error
    return store.resolve(model.name)


def _wanted(store: ModelStore, model: StoredModel) -> WantedModel | ModelUpdate:
    """What the source has now, or why that is unknown."""
    from ..download.wanted_models import catalog_model, hub_model

    if model.place or model.parent:
        return _unknown(model, "it was added or made on this machine")
    if entry := store.catalog.find(model.name):
        return catalog_model(entry)
    try:
        parsed = parse_reference(model.name)
    except ModelNotFound:  # a name by its path
        parsed = None
    if not isinstance(parsed, HubReference):
        return _unknown(model, "it has no source")
    store.check_online(model.name)
    try:
        return hub_model(parsed)
    except (ModelNotFound, SourceUnavailable) as error:
        return _unknown(model, error.message.removesuffix("."))


def _unknown(model: StoredModel, reason: str) -> ModelUpdate:
    return ModelUpdate(name=model.name, state="unknown", reason=reason, size=model.size)


def _stated(wanted: WantedModel) -> dict[str, str]:
    """The digests that the source states, by the file's name."""
    return {each.file.name: each.file.sha256 for each in wanted.files if each.file.sha256}


def _kept(versions: ModelVersions, wanted: WantedModel) -> Manifest | None:
    """The kept version that is the source's, if it states all digests."""
    stated = _stated(wanted)
    if len(stated) < len(wanted.files):
        return None
    identity = version_id(stated)
    return next((each for each in versions.kept() if version_id(each.digests) == identity), None)


def _download(wanted: WantedModel, versions: ModelVersions, reporter: PullReporter) -> Manifest:
    """The new version, complete in a folder of its own; files that stay the same are linked."""
    from ..download.model_download import fetch_model

    here = load_manifest(versions.folder)
    if all(here.digests.get(name) == digest for name, digest in _stated(wanted).items()):
        return here
    versions.next.mkdir(parents=True, exist_ok=True)
    for name, digest in _stated(wanted).items():
        target = versions.next / name
        if here.digests.get(name) == digest and not target.exists():
            with suppress(OSError):  # no such links on this disk: it is downloaded
                os.link(versions.folder / here.folder / name, target)
    manifest = fetch_model(wanted, versions.next, reporter)
    if not manifest.file:  # a folder's description is its name
        manifest = msgspec.structs.replace(manifest, description=here.description)
    return versions.adopt(manifest)
