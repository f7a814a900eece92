"""The files of one adapter: copied beside its model, and checked against it."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..config.model_config import ModelConfig
from ..errors import InvalidModel, UnsupportedModel
from ..families.gguf_config import config_from_gguf
from ..gguf.gguf_header import GGUFHeader, read_header
from ..metadata.stored_model import StoredModel
from .adapter_settings import CONFIG, GGUF, WEIGHTS, AdapterSettings
from .gguf_adapter import GGUFAdapterSettings


def copy_adapter(model: StoredModel, source: Path, target: Path) -> list[Path]:
    """Copy the adapter in `source`, a folder that PEFT saved or a GGUF file, into a folder.

    The copy, which nothing changes any more, is checked. That of a GGUF model is a GGUF file, which
    both engines read. Returns the new files.

    Raises `ModelNotFound`, `InvalidModel` and `UnsupportedModel`.
    """
    file = target / GGUF
    if source.is_dir():
        AdapterSettings(source)
        files = [target / CONFIG, target / WEIGHTS]
        for path in files:
            shutil.copyfile(source / path.name, path)
        settings = AdapterSettings(target)
        if model.path.is_dir():
            return files
        from .gguf_conversion import write_gguf_adapter  # imports NumPy

        write_gguf_adapter(settings, _config_of(header := read_header(model.path)), file)
        GGUFAdapterSettings(file).check_fits(header)
        return [file]
    GGUFAdapterSettings(source)
    shutil.copyfile(source, file)
    adapter = GGUFAdapterSettings(file)
    if adapter.architecture != model.architecture:
        raise InvalidModel(
            f"{source} was made for a model of the architecture {adapter.architecture[:40]!r}; "
            f"{model.name} has {model.architecture!r}.",
            hint="Use it with the model that it was made for.",
        )
    if not model.path.is_dir():
        adapter.check_fits(read_header(model.path))
    return [file]


def _config_of(header: GGUFHeader) -> ModelConfig:
    try:
        return config_from_gguf(header)
    except UnsupportedModel as error:
        raise UnsupportedModel(
            f"ingle cannot convert an adapter for this model: {error.message}",
            hint="Convert it with llama.cpp's convert_lora_to_gguf.py, and add that file.",
        ) from error
