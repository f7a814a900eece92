"""The models of other programs on this machine, each file under one name that no other has."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from ..errors import ModelError
from ..metadata.description_cache import DescriptionCache, as_text
from ..metadata.manifest import clean_text
from ..metadata.stored_model import StoredModel, UnusableModel
from ..vision.picture_encoders import find_encoder
from .found_model import FoundModel, Place

logger = logging.getLogger(__name__)

_FRESH_SECONDS = 1.0
"""Seconds for which a scan is reused; a client may ask for every model in turn."""
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "typical_p", "repeat_penalty")
_LARGEST = 1e4


class PlacesScan(msgspec.Struct, frozen=True):
    """What all places have, in the order of the places; no two models have one name or one file."""

    models: tuple[StoredModel, ...] = ()
    unusable: tuple[UnusableModel, ...] = ()


class LocalModels:
    """Scans places; a file is read again only if it has changed."""

    def __init__(self, places: Sequence[Place], descriptions: DescriptionCache) -> None:
        self._places = tuple(places)
        self._descriptions = descriptions
        self._lock = Lock()
        self._survey = PlacesScan()
        self._taken_at = -math.inf
        self._logged: set[UnusableModel] = set()

    def survey(self) -> PlacesScan:
        """The models now, or a moment ago; blocks while it scans."""
        with self._lock:
            if time.monotonic() - self._taken_at > _FRESH_SECONDS:
                self._survey = self._look()
                self._descriptions.save()
                self._taken_at = time.monotonic()
            return self._survey

    def forget(self) -> None:
        """Scan again at the next call: something was just removed."""
        with self._lock:
            self._taken_at = -math.inf

    def _look(self) -> PlacesScan:
        models: dict[str, StoredModel] = {}
        unusable: list[UnusableModel] = []
        files: set[tuple[int, int]] = set()
        for place, finding in self._findings():
            try:
                status = finding.path.stat()
                if (status.st_dev, status.st_ino) in files:
                    continue
                model = self._describe(place, finding)
            except OSError as error:
                problem = finding.problem or f"it cannot be read: {error.strerror or error}"
                unusable.append(_unusable(place, finding, problem))
            except ModelError as error:
                unusable.append(_unusable(place, finding, error.message))
            else:
                files.add((status.st_dev, status.st_ino))
                name = free_name(model, models)
                models[name.lower()] = msgspec.structs.replace(model, name=name)
        self._log_unusable(unusable)
        return PlacesScan(tuple(models.values()), tuple(unusable))

    def _findings(self) -> Iterator[tuple[Place, FoundModel]]:
        for place in self._places:
            try:
                for finding in place.find(place.folder):
                    yield place, finding
            except (FileNotFoundError, NotADirectoryError):
                continue  # that program is not here
            except OSError as error:
                found = FoundModel(place.title, place.folder, problem=f"{error.strerror or error}")
                yield place, found

    def _describe(self, place: Place, finding: FoundModel) -> StoredModel:
        if finding.problem:
            raise ModelError(finding.problem)
        model = self._descriptions.describe(finding.path)
        name = clean_text(finding.name)
        if ":" not in name:
            name = f"{name}:{model.quantization.lower()}"
        licence = model.licence
        if licence == "unknown":
            licence = clean_text(finding.licence) or licence
        return msgspec.structs.replace(
            model,
            name=name,
            place=place.title,
            source=place.title,
            sha256=finding.sha256 or model.sha256,
            licence=licence,
            system=finding.system,
            messages=list(finding.messages),
            options=dict(finding.options),
            sampling=_sampling(finding.options),
            notes=list(finding.notes),
            projector=finding.projector or find_encoder(finding.path),
        )

    def _log_unusable(self, unusable: Sequence[UnusableModel]) -> None:
        """Log what is left out, each only once."""
        for entry in unusable:
            if entry not in self._logged:
                logger.info("Left out %s (%s): %s", entry.path, entry.place, entry.reason)
        self._logged = set(unusable)


def _unusable(place: Place, finding: FoundModel, reason: str) -> UnusableModel:
    return UnusableModel(clean_text(finding.name), as_text(finding.path), place.title, reason)


def _sampling(options: Mapping[str, Any]) -> dict[str, float]:
    """The model's options that every protocol has."""
    found = {name: options[name] for name in _SAMPLING if name in options}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and 0 <= value <= _LARGEST
    }


def merge_listings(own: Sequence[StoredModel], others: Sequence[StoredModel]) -> list[StoredModel]:
    """The models of other programs as they are listed after the store's own, whose names win."""
    names = {model.name.lower() for model in own}
    digests = {identity(model.path): model.sha256 for model in own}
    kept = {identity(model.path) for model in own if not model.place}
    merged: list[StoredModel] = []
    for model in others:
        file = identity(model.path)
        if file in kept:  # a folder of models may be the store itself
            continue
        name = qualified_name(model) if model.name.lower() in names else model.name
        sha256 = model.sha256 or digests.get(file)
        merged.append(msgspec.structs.replace(model, name=name, sha256=sha256))
    return merged


def free_name(model: StoredModel, taken: Mapping[str, StoredModel]) -> str:
    """The model's name, qualified by its place if it is taken, else its path."""
    names = (model.name, qualified_name(model))
    return next((name for name in names if name.lower() not in taken), str(model.path))


def qualified_name(model: StoredModel) -> str:
    """A name with the program that keeps the model, such as `llama3.2:latest@ollama`."""
    word = re.sub(r"[^a-z0-9._-]+", "-", Path(model.place).name.lower())
    return f"{model.name}@{word}"


def identity(path: Path) -> tuple[int, int] | Path:
    """A key that two names of one file share."""
    try:
        found = path.stat()
    except OSError:
        return path
    return found.st_dev, found.st_ino
