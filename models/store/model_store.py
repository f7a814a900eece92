"""The models on this machine: listing, finding, fetching and removing them."""

from __future__ import annotations

import difflib
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..adapters.adapter_folder import SEPARATOR, AdapterFolder
from ..catalog import HUB_HOST, LATEST_TAG, Catalog
from ..download.pull_progress import OnPullProgress, PullReporter
from ..errors import AmbiguousName, ModelNotFound, NotInStore, Offline
from ..gguf.gguf_names import parse_shard
from ..metadata.description_cache import DescriptionCache
from ..metadata.digest_cache import DigestCache
from ..metadata.manifest import MANIFEST
from ..metadata.stored_model import StoredModel, UnusableModel
from ..model_reference import CatalogReference, HubReference, PathReference, parse_reference
from ..places.found_model import Place
from ..places.local_models import LocalModels, identity, merge_listings
from ..sources.download_source import Cancelled
from ..vision.picture_encoders import find_encoder
from .draft_finder import DraftFinder
from .head_finder import find_heads
from .model_removal import RemovalReport, bytes_freed, delete_files, files_of
from .model_versions import ModelVersions
from .store_folder import StoreFolder

if TYPE_CHECKING:
    from ..download.model_download import WantedModel

_DIGESTS = ".digests.json"
_SEEN = ".seen.json"


@dataclass(slots=True)
class ModelStore:
    """A folder of models, `NAME/TAG/FILE` or `hf.co/OWNER/REPO/QUANT/FILE`, each with a manifest.

    A folder without a manifest is no model. Any number of processes may use the same store.
    `places` hold models of other programs, which are used where they lie. `offline` makes no
    connection at all.
    """

    root: Path
    catalog: Catalog
    places: Sequence[Place] = ()
    offline: bool = False
    _descriptions: DescriptionCache = field(init=False, repr=False)
    _drafts: DraftFinder = field(default_factory=DraftFinder, repr=False)
    _local: LocalModels = field(init=False, repr=False)
    folders: StoreFolder = field(init=False, repr=False)
    adapters: AdapterFolder = field(init=False, repr=False)
    _digests: DigestCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.folders = StoreFolder(self.root)
        self.adapters = AdapterFolder(self.root.parent / "adapters")
        self._digests = DigestCache(self.root / _DIGESTS)
        self._descriptions = DescriptionCache(self.root / _SEEN)
        self._local = LocalModels(self.places, self._descriptions)

    def list(self) -> list[StoredModel]:
        """The models of the store by name, then those of other programs.

        Unreadable ones are left out. No two have one name; blocks while it reads.
        """
        own = self.own()
        others = merge_listings(own, self._local.survey().models)
        return own + [self._advised(model) for model in self._digests.complete(others)]

    def compare(self) -> None:
        """Find equal files: hash those with an unknown digest whose size matches another's.

        Takes as long as reading them.
        """
        models = [model for model in self.list() if model.path.is_file()]
        sizes = Counter(model.size for model in models)
        for model in models:
            if model.sha256 is None and sizes[model.size] > 1 and not parse_shard(model.path.name):
                with suppress(OSError):  # it is gone or not readable
                    self._digests.digest(model.path, lambda position: None)

    def unusable(self) -> list[UnusableModel]:
        """The files of other programs that cannot be used, with the reason."""
        return list(self._local.survey().unusable)

    def own(self) -> list[StoredModel]:
        """The installed models by name; unreadable ones are left out with a warning."""
        models = self._digests.complete(self.folders.models())
        return [self._advised(model) for model in models]

    def resolve(self, reference: str) -> StoredModel:
        """The installed model, file or folder that `reference` names, maybe with `+ADAPTER`.

        Raises `ModelNotFound` with a hint how to get it, and for a path what `read_header`,
        `check_supported` and `read_folder` raise.
        """
        base, _, adapter = reference.rpartition(SEPARATOR)
        if base and (model := self._base(base, reference)):
            return self.adapters.find(model, adapter)
        try:
            parsed = parse_reference(reference)
        except ModelNotFound:
            if model := self._elsewhere(reference):
                return model
            raise
        if isinstance(parsed, PathReference):
            if not parsed.path.exists() and (model := self._elsewhere(reference)):
                return model
            return self._at_path(parsed.path, reference)
        model = self._installed(parsed) or self._elsewhere(str(parsed))
        if model is None:
            raise self._not_found(parsed)
        return model

    def pull(
        self,
        reference: str,
        on_progress: OnPullProgress = lambda progress: None,
        cancelled: Cancelled = lambda: False,
    ) -> StoredModel:
        """Fetch a model unless it is here already; blocks, so call it in a thread.

        Both callbacks are called in that thread. Raises `ModelNotFound`, and what
        `FileDownload.run` raises.
        """
        # Imported here: the daemon starts without what only a pull needs.
        from .model_pull import ModelPull

        parsed = parse_reference(reference)
        if isinstance(parsed, PathReference):
            return self._at_path(parsed.path, reference)
        if model := self._installed(parsed):
            return model
        if isinstance(parsed, HubReference) and (model := self._elsewhere(str(parsed))):
            return model  # the hub's own name for it
        PullReporter(str(parsed), None, on_progress).status("resolving")
        if isinstance(parsed, HubReference):
            self.check_online(str(parsed))
        wanted = self._wanted(parsed)
        reporter = PullReporter(wanted.name, wanted.size, on_progress, cancelled, wanted.task)
        pull = ModelPull(wanted, self.folders, self.list, self._digests, reporter)
        return self._advised(pull.run(self.check_online))

    def plan_removal(self, reference: str, *, delete_file: bool = False) -> RemovalReport:
        """The report of what `remove` would do; raises as it does, except for `ModelInUse`."""
        name = self._own_name(reference)
        if name is None:
            found = self._to_remove(reference)
            self._refuse_ambiguous(reference, found.name)
            return self._plan_for_others(found, delete_file=delete_file)
        self._refuse_ambiguous(reference, name)
        folder = self.folders.path(name)
        files = [path for path in folder.rglob("*") if path.is_file()]
        model = self._read(name)
        if model is None or not model.place:
            return RemovalReport(
                name=name,
                frees=bytes_freed(files),
                files=[str(path) for path in files if path.name != MANIFEST],
                shared_with=self._sharers(model) if model else [],
            )
        theirs = files_of(model) if delete_file else []
        return RemovalReport(
            name=name,
            frees=bytes_freed([*files, *theirs]),
            files=[str(path) for path in theirs],
            keeps=[] if delete_file else [str(model.path)],
            place=model.place,
        )

    def remove(self, reference: str, *, delete_file: bool = False) -> RemovalReport:
        """Remove a model, or what is left of an unfinished download.

        A file outside the store is deleted only with `delete_file`. Raises `ModelNotFound` if there
        is no such model, `AmbiguousName` for a name without a tag that several models share,
        `NotInStore` for a model of another program, and `ModelInUse` while another process works on
        it.
        """
        plan = self.plan_removal(reference, delete_file=delete_file)
        if self._own_name(reference) is not None:
            with self.folders.claim(plan.name) as folder:
                (folder / MANIFEST).unlink(missing_ok=True)  # first: from here on it is no model
                shutil.rmtree(folder)
            self.folders.remove_empty(folder.parent)
        if plan.place:
            delete_files([Path(path) for path in plan.files])
        self._local.forget()
        return plan

    def _base(self, base: str, reference: str) -> StoredModel | None:
        """The model whose adapter `reference` may name; None for one of this very name."""
        with suppress(ModelNotFound):
            return None if Path(reference).exists() else self.resolve(base)
        return None

    def _to_remove(self, reference: str) -> StoredModel:
        """Resolve without the advice to fetch what is missing."""
        try:
            return self.resolve(reference)
        except ModelNotFound as error:
            if "ingle pull" not in (error.hint or ""):
                raise
            raise ModelNotFound(error.message, hint="`ingle list` shows what is here.") from None

    def _refuse_ambiguous(self, reference: str, name: str) -> None:
        """Raise `AmbiguousName` if `reference` may mean other models than the one called `name`."""
        said = reference.strip().lower()
        if name.lower() in (said, f"{said}{LATEST_TAG}"):
            return
        same = (
            other.name for other in self.list() if other.name.rpartition(":")[0].lower() == said
        )
        if others := [other for other in same if other != name]:
            raise AmbiguousName(
                f"{reference!r} may mean {' or '.join([name, *others])}.",
                hint="Write the whole name, with its tag.",
            )

    def _plan_for_others(self, model: StoredModel, *, delete_file: bool) -> RemovalReport:
        if not delete_file:
            raise NotInStore(
                f"{model.name} belongs to {model.place}, so ingle leaves it."
                if model.place
                else f"{model.path} is not in ingle's store, so ingle does not remove it.",
                hint=f"`ingle rm --delete-file {model.name}` deletes {model.path}.",
            )
        files = files_of(model)
        return RemovalReport(
            name=model.name,
            frees=bytes_freed(files),
            files=[str(path) for path in files],
            place=model.place or str(model.path.parent),
        )

    def _sharers(self, model: StoredModel) -> list[str]:
        """Other models of the store that have the very same file."""
        mine = identity(model.path)
        others = (other for other in self.own() if other.name != model.name)
        return [other.name for other in others if identity(other.path) == mine]

    def find_draft(self, model: StoredModel) -> StoredModel | None:
        """The smaller model on this machine that can draft best for a model; reads vocabularies."""
        return next(iter(self._drafts.find(model, self.list())), None)

    def find_heads(self, model: StoredModel) -> list[UnusableModel]:
        """The heads on this machine that may have been trained to draft for a model."""
        return find_heads(model, self._local.survey().unusable)

    def versions_of(self, model: StoredModel) -> ModelVersions | None:
        """The versions of a model of the store, None for one whose files lie elsewhere."""
        if model.place or not model.path.is_relative_to(self.root):
            return None
        return ModelVersions(self.folders.path(model.name))

    def check_online(self, name: str) -> None:
        """Raise `Offline` if the settings allow no connection."""
        if self.offline:
            raise Offline(
                f"{name} is not on this machine, and ingle is offline: nothing was asked.",
                hint="`offline` in the configuration, or HF_HUB_OFFLINE, says so; `ingle list` "
                "shows what is here.",
            )

    def _wanted(self, parsed: CatalogReference | HubReference) -> WantedModel:
        from ..download.wanted_models import catalog_model, hub_model

        if isinstance(parsed, HubReference):
            return hub_model(parsed)
        entry = self.catalog.find(str(parsed))
        if entry is None:
            raise self._not_found(parsed)
        return catalog_model(entry)

    def _installed(self, parsed: CatalogReference | HubReference) -> StoredModel | None:
        name = str(parsed)
        if isinstance(parsed, CatalogReference):
            if entry := self.catalog.find(name):
                return self._read(entry.full_name)
            complete = parsed.tag is not None
        else:
            complete = parsed.quant is not None
        if complete:
            model = self._read(name)
            if model is not None or not name.lower().endswith(LATEST_TAG):
                return model
            name = name[: -len(LATEST_TAG)]
        elif model := self._read(f"{name}{LATEST_TAG}"):
            return model
        # Without a tag the name is enough where only one model has it.
        same = [model for model in self.own() if model.name.rpartition(":")[0] == name]
        return same[0] if len(same) == 1 else None

    def _elsewhere(self, name: str) -> StoredModel | None:
        """The model of another program with this name, or the only one that it could mean."""
        name = name.strip().lower()
        found = {model.name.lower(): model for model in self.list() if model.place}
        for exact in (name, f"{name}{LATEST_TAG}", name.removesuffix(LATEST_TAG)):
            if exact in found:
                return found[exact]
        same = [model for full, model in found.items() if full.rpartition(":")[0] == name]
        return same[0] if len(same) == 1 else None

    def _read(self, name: str) -> StoredModel | None:
        model = self.folders.read(self.folders.path(name))
        return None if model is None else self._advised(*self._digests.complete([model]))

    def _advised(self, model: StoredModel) -> StoredModel:
        """The model with the catalog's current advice, which may be newer than the manifest."""
        entry = self.catalog.find(model.name)
        if entry is None or entry.sha256 != model.sha256:
            # Other programs have the same files by other names.
            entry = self.catalog.with_digest(model.sha256) if model.place else None
        if entry is None:
            return model
        return msgspec.structs.replace(
            model,
            licence=entry.licence,
            description=entry.description,
            chat=entry.chat,
            sampling=entry.sampling,
            chat_template=entry.chat_template,
            draft=entry.draft,
            dimensions=entry.dimensions,
        )

    def _at_path(self, path: Path, text: str) -> StoredModel:
        try:
            model = self._descriptions.describe(path)
            projector = find_encoder(path)
            return msgspec.structs.replace(model, projector=projector) if projector else model
        except (OSError, ValueError):
            hint = "Check the spelling."
            if text.count("/") == 1 and text[0] not in "./~":
                hint = f"For a repository on the hub write `{HUB_HOST}/{text}`."
            shown = path if Path(text).is_absolute() else text
            raise ModelNotFound(f"There is no file or folder {shown}.", hint=hint) from None

    def _own_name(self, reference: str) -> str | None:
        """The full name of a model of the store, or of an unfinished download; None of others'."""
        try:
            parsed = parse_reference(reference)
        except ModelNotFound:
            return None
        if isinstance(parsed, PathReference):
            found = (model.name for model in self.own() if model.path == parsed.path)
            return next(found, None)
        if model := self._installed(parsed):
            return model.name
        entry = self.catalog.find(str(parsed))
        name = entry.full_name if entry else str(parsed)
        return name if ":" in name and any(self.folders.path(name).glob("*")) else None

    def _not_found(self, parsed: CatalogReference | HubReference) -> ModelNotFound:
        name = str(parsed)
        if isinstance(parsed, HubReference) or self.catalog.find(name):
            hint = f"`ingle pull {name}` fetches it."
        else:
            installed = [model.name for model in self.list()]
            near = [
                *difflib.get_close_matches(name, installed, n=3),
                *self.catalog.suggestions(name),
            ]
            words = " or ".join(f"`{word}`" for word in dict.fromkeys(near))
            hint = f"Did you mean {words}?" if near else "`ingle list` shows what there is."
        return ModelNotFound(f"There is no model called {name!r} here.", hint=hint)
