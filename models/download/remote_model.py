"""Read a model's headers without downloading it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidModel, ModelError, SourceUnavailable, UnsupportedModel
from ..gguf.gguf_header import GGUFHeader, parse_file_header
from ..gguf.gguf_hyperparameters import check_hyperparameters
from ..gguf.gguf_shards import join_shards
from ..gguf.gguf_support import check_supported
from ..safetensors.folder_files import CONFIG, is_weights
from ..safetensors.model_folder import ModelFolder, check_settings
from ..safetensors.quantized.quantization_config import SETTINGS_BESIDE, read_quantization
from ..safetensors.safetensors_header import (
    StoredTensor,
    parse_json_object,
    parse_safetensors_header,
)
from ..sources.ranged_file import RangedFile
from .model_download import WantedFile, WantedModel

_LONGEST_JSON = 1 << 22
_TEMPLATES = frozenset({"chat_template.jinja", "chat_template.json"})


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """The description of a model that is not downloaded, and the bytes fetched to read it."""

    name: str
    size: int | None
    licence: str
    description: GGUFHeader | ModelFolder
    fetched: int


def read_remote_model(wanted: WantedModel) -> RemoteModel:
    """Read the headers of a model's files at their source.

    Raises `SourceUnavailable` if no source of theirs supports ranges, and the `ModelError`s that
    reading the downloaded model would raise.
    """
    return _Remote(wanted).describe()


class _Remote:
    def __init__(self, wanted: WantedModel) -> None:
        self._wanted = wanted
        self._files: Mapping[str, WantedFile] = {each.file.name: each for each in wanted.files}
        self._fetched = 0

    def describe(self) -> RemoteModel:
        first = self._wanted.first_weights
        description = self._header(first) if first else self._folder()
        stated = description.licence if isinstance(description, GGUFHeader) else None
        return RemoteModel(
            name=self._wanted.name,
            size=self._wanted.size,
            licence=self._wanted.licence or stated or "unknown",
            description=description,
            fetched=self._fetched,
        )

    def _header(self, name: str) -> GGUFHeader:
        first = self._file_header(Path(name))
        header = join_shards(first, self._file_header, lambda path: path.name in self._files)
        check_hyperparameters(header)
        check_supported(header)
        return header

    def _file_header(self, path: Path) -> GGUFHeader:
        with self._open(path.name) as file:
            return parse_file_header(file, path, file.size)

    def _folder(self) -> ModelFolder:
        path = Path(self._wanted.name.rpartition("/")[2])
        settings = self._json(CONFIG)
        tensors: dict[str, tuple[Path, StoredTensor]] = {}
        for name in filter(is_weights, self._files):
            with self._open(name) as file:
                found = parse_safetensors_header(file, Path(name), file.size)
            tensors |= {tensor.name: (Path(name), tensor) for tensor in found}
        config = check_settings(path, settings)
        beside = {name: self._json(name) for name in SETTINGS_BESIDE if name in self._files}
        declared = read_quantization(path, settings, beside)
        has_template = bool(_TEMPLATES & self._files.keys())
        folder = ModelFolder(path, config, tensors, has_template, declared)
        folder.check_types()
        return folder

    def _json(self, name: str) -> dict[str, object]:
        with self._open(name) as file:
            if file.size > _LONGEST_JSON:
                raise InvalidModel(f"{name} of {self._wanted.name} is far too large.")
            return parse_json_object(file.read(file.size), Path(name), "text")

    @contextmanager
    def _open(self, name: str) -> Generator[RangedFile]:
        """The file at the first of its sources that supports ranges."""
        wanted = self._files.get(name)
        if wanted is None:
            raise UnsupportedModel(f"{self._wanted.name} has no {name}.")
        failure: ModelError | None = None
        for source in wanted.sources:
            ranges = source.ranges()
            if ranges is None:
                continue
            with ExitStack() as opened:
                try:
                    file = opened.enter_context(ranges)
                except SourceUnavailable as error:
                    failure = error
                    continue
                yield file
                self._fetched += file.fetched
                return
        raise failure or SourceUnavailable(
            f"{self._wanted.name} comes as a whole only, so nothing can be told of it before "
            "it is here.",
            hint=f"`ingle pull {self._wanted.name}` fetches it.",
        )
