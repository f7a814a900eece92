"""The adapters of the models on this machine, each in a folder of its own."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from ..errors import InvalidModel, ModelNotFound
from ..json_object import read_json_object
from ..metadata.stored_model import StoredModel
from .adapter_settings import GGUF, WEIGHTS, weights_of

_MODEL = "model.json"
SEPARATOR = "+"
"""Between the names of a model and of its adapter."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class AdapterFolder:
    """Folders `MODEL/ADAPTER/DIGEST` with the files of adapters; MODEL is a digest of its name.

    Files of an adapter never change, so that its folder names what a process has loaded.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, model: StoredModel, source: Path, name: str) -> StoredModel:
        """Copy an adapter, a folder that PEFT saved or a GGUF file, in place of one of the name.

        That of a GGUF model is kept as a GGUF file. Returns the model with it.

        Raises `InvalidModel` for a damaged one, one that does not fit or an impossible name,
        `ModelNotFound`, and `UnsupportedModel` for other adapters than LoRA.
        """
        if _NAME.fullmatch(name) is None:
            raise InvalidModel(
                f"{name[:80]!r} cannot be the name of an adapter.",
                hint="Use letters, digits, points, dashes and underscores.",
            )
        from .adapter_files import copy_adapter  # imports all families

        place = self._place(model.name) / name
        place.mkdir(parents=True, exist_ok=True)
        (place.parent / _MODEL).write_text(json.dumps({"model": model.name}))
        with tempfile.TemporaryDirectory(dir=place, prefix=".") as unfinished:
            files = copy_adapter(model, source, Path(unfinished))
            digest = hashlib.sha256(b"".join(path.read_bytes() for path in files))
            folder = place / digest.hexdigest()[:16]
            if not weights_of(folder).exists():
                folder.mkdir(exist_ok=True)
                for path in files:  # the weights last
                    path.replace(folder / path.name)
        for other in place.iterdir():
            if other != folder:
                shutil.rmtree(other)
        return _with_adapter(model, name, folder)

    def remove(self, model: StoredModel) -> None:
        """Remove the adapter of a model with one."""
        shutil.rmtree(Path(model.adapter).parent)

    def find(self, model: StoredModel, name: str) -> StoredModel:
        """The model with the adapter of this name; raises `ModelNotFound` if there is none."""
        for found in self.of_model(model):
            if found.name.rpartition(SEPARATOR)[2].lower() == name.lower():
                return found
        names = ", ".join(each.name for each in self.of_model(model))
        raise ModelNotFound(
            f"{model.name} has no adapter {name[:80]!r}.",
            hint=f"There are: {names}." if names else "`ingle adapter add` adds one.",
        )

    def of_model(self, model: StoredModel) -> list[StoredModel]:
        """The model with each of its adapters, by their names."""
        place = self._place(model.name)
        if not place.is_dir():
            return []
        found = sorted(path.parent for path in _files_in(place))
        return [_with_adapter(model, each.parent.name, each) for each in found]

    def models(self) -> list[str]:
        """The names of models that have adapters."""
        found = (read_json_object(path) or {} for path in self.root.glob(f"*/{_MODEL}"))
        return sorted(str(settings.get("model")) for settings in found)

    def of_models(self, models: Iterable[StoredModel]) -> list[StoredModel]:
        """All models with adapters."""
        return [found for model in models for found in self.of_model(model)]

    def bytes_of(self, model_name: str) -> int:
        """The bytes of all adapters of a model."""
        base = model_name.rpartition(SEPARATOR)[0] or model_name
        return sum(path.stat().st_size for path in _files_in(self._place(base)))

    def _place(self, model: str) -> Path:
        return self.root / hashlib.sha256(model.encode()).hexdigest()[:24]


def _files_in(place: Path) -> list[Path]:
    return [path for name in (GGUF, WEIGHTS) for path in place.glob(f"[!.]*/[!.]*/{name}")]


def without_adapter(model: StoredModel) -> StoredModel:
    """The model itself, whose process all its adapters share."""
    if not model.adapter:
        return model
    return structs.replace(model, name=model.name.rpartition(SEPARATOR)[0], adapter="")


def _with_adapter(model: StoredModel, name: str, folder: Path) -> StoredModel:
    return structs.replace(model, name=f"{model.name}{SEPARATOR}{name}", adapter=str(folder))
