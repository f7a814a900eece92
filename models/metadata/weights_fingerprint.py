"""A fingerprint of the weights in a folder, independent of its path."""

from __future__ import annotations

import hashlib
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from ..errors import InvalidModel
from ..safetensors.folder_files import CONFIG

if TYPE_CHECKING:
    from ..safetensors.model_folder import ModelFolder

_SAMPLE = 4096
_VERSION = b"1"


def fingerprint(folder: ModelFolder) -> str:
    """64 hexadecimal digits that identify a model's weights, equal for a copy.

    Covers the configuration, every tensor's name, type and shape, and 4 KiB from the middle of
    each: reading all weights would take as long as loading them. Raises `InvalidModel` if the files
    change meanwhile.
    """
    digest = hashlib.sha256(_VERSION)
    try:
        digest.update((folder.path / CONFIG).read_bytes())
        places = sorted(folder.tensors.values(), key=lambda place: (place[0], place[1].offset))
        for path, tensors in groupby(places, key=itemgetter(0)):
            with path.open("rb") as file:
                for _, tensor in tensors:
                    digest.update(f"\n{tensor.name} {tensor.dtype} {tensor.shape}\n".encode())
                    file.seek(tensor.offset + max(0, (tensor.bytes - _SAMPLE) // 2))
                    digest.update(file.read(min(_SAMPLE, tensor.bytes)))
    except OSError as error:
        raise InvalidModel(
            f"{folder.path} cannot be read: {error.strerror}.", hint="Check its files."
        ) from error
    return digest.hexdigest()
