"""Writes a quantised folder of safetensors, as transformers and vLLM read it."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from ingle.models.errors import ModelError, UnsupportedModel
from ingle.models.safetensors.folder_files import BESIDE, CONFIG, belongs_to_model
from ingle.models.safetensors.model_folder import NF4, ModelFolder, read_folder
from ingle.models.safetensors.quantized.quantization_config import SETTINGS_BESIDE
from ingle.models.safetensors.safetensors_header import DTYPE_BYTES
from ingle.models.weights.gguf_tensor_names import name_in_gguf
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.safetensors_weights import SafetensorsWeights

from ...base.errors import BackendError
from ...hardware.cpu_inventory import read_inventory
from ...hardware.thread_plan import plan_threads
from .importance import Importance, find_importance
from .matrix_encoders import MatrixEncoder, PlannedPart, choose_encoder
from .messages import QuantizeProgress, QuantizeReport, QuantizeSpec
from .quantize_failures import QuantizeFailed, check_room, disk_failure
from .resumable_file import ResumableFile
from .tensor_source import Send

_WEIGHTS = "model.safetensors"
_PROJECTIONS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_LINEAR = frozenset(
    f"{name}{kind}.weight" for name in _PROJECTIONS for kind in ("", "_exps", "_shexp")
)
"""Ends of the names of matrices that are quantised: those that every format's readers expect."""
_TABLES = ("embed_tokens.weight", "lm_head.weight")
"""Matrices that no reader expects to be quantised."""
_PROBE = 32
"""Tokens with which the finished folder is tested."""


class _Planned(NamedTuple):
    """A stored tensor, and what is written for it: itself without `parts`."""

    name: str
    parts: tuple[PlannedPart, ...]
    weighs: str
    """The tensor of a GGUF file that has the importance of its inputs."""


def quantize_folder(spec: QuantizeSpec, send: Send) -> QuantizeReport:
    """Quantise a folder as `spec` says; raises `BackendError` or `ModelError`.

    An interrupted one is resumed by the next call with the same `spec`.
    """
    began = time.monotonic()
    output = Path(spec.output)
    _check_output(output, spec)
    send(QuantizeProgress("reading the model"))
    folder = read_folder(Path(spec.source))
    if folder.quantization == NF4 or folder.matrices is not None:
        raise UnsupportedModel(
            f"{folder.path} is quantised to {folder.quantization} already.",
            hint="Use the edition in BF16, F16 or F32.",
        )
    weighs = _linear_layers(folder)
    shapes = [folder.tensors[name][1].shape for name in weighs]
    encoder = choose_encoder(spec.target, [shape for shape in shapes if len(shape) == 2])
    planned = _plan(folder, weighs, encoder)
    importance = _importance(spec, send)
    torch.set_num_threads(spec.threads or plan_threads(read_inventory()).threads)
    try:
        output.mkdir(exist_ok=True)
        _write(folder, planned, encoder, importance, spec, send)
        _describe(folder, planned, encoder, output)
    except OSError as error:
        raise disk_failure(error, output) from error
    send(QuantizeProgress("checking the new folder"))
    try:
        written = read_folder(output)
        _check_loads(written)
    except (BackendError, ModelError):
        (output / CONFIG).unlink(missing_ok=True)
        raise
    return QuantizeReport(
        output=spec.output,
        architecture=folder.config.architecture,
        source_quantization=folder.quantization,
        quantization=written.quantization,
        source_size=folder.tensor_bytes,
        size=written.tensor_bytes,
        parameters=written.parameters,
        types=dict(Counter(spec.target if each.parts else "as it was" for each in planned)),
        weighted=sum(each.weighs in importance for each in planned if each.parts),
        seconds=time.monotonic() - began,
    )


def _check_output(output: Path, spec: QuantizeSpec) -> None:
    if output.is_file():
        raise QuantizeFailed(f"{output} is a file.", hint="Choose another --output.")
    if output.exists() and output.samefile(spec.source):
        raise QuantizeFailed(
            f"{output} is the model itself, which is only read.", hint="Choose another --output."
        )
    if (output / CONFIG).exists() and not spec.overwrite:
        raise QuantizeFailed(
            f"{output} is there already.", hint="Choose another --output, or add --force."
        )
    if any(output.glob("*.safetensors")) and not spec.overwrite:
        raise QuantizeFailed(
            f"{output} holds weights already.", hint="Choose another --output, or add --force."
        )


def _importance(spec: QuantizeSpec, send: Send) -> Importance:
    if not spec.importance:
        return {}

    def report(done: int, total: int) -> None:
        send(QuantizeProgress("measuring which weights matter", done, total))

    return find_importance(Path(spec.importance), Path(spec.source), report)


def _linear_layers(folder: ModelFolder) -> dict[str, str]:
    """Return the stored matrices to quantise, with the tensors of GGUF files that they are."""
    stored = SafetensorsWeights(folder.path, folder.tensors)
    names = HFTensorNames(stored, folder.config, folder.buffers)
    return {
        source: name_in_gguf(name, folder.config)
        for name in names.names
        if name.rpartition(".")[0].rpartition(".")[2] + ".weight" in _LINEAR
        for source in names.sources_of(name)
    }


def _plan(folder: ModelFolder, weighs: Mapping[str, str], encoder: MatrixEncoder) -> list[_Planned]:
    """Return what becomes of each stored tensor; raises `UnsupportedModel` if nothing changes."""
    planned = [
        _Planned(name, _parts(name, tensor.shape, name in weighs, encoder), weighs.get(name, ""))
        for name, (_, tensor) in sorted(folder.tensors.items())
        if name not in folder.buffers
    ]
    if not any(each.parts for each in planned):
        raise UnsupportedModel(
            f"No matrix of {folder.path} fits this format.", hint="Choose Q8_0 or another target."
        )
    return planned


def _parts(
    name: str, shape: tuple[int, ...], is_linear: bool, encoder: MatrixEncoder
) -> tuple[PlannedPart, ...]:
    if not is_linear or len(shape) != 2 or not name.endswith(".weight"):
        return ()
    stem = name.removesuffix("weight")
    return tuple(part._replace(ending=f"{stem}{part.ending}") for part in encoder.parts(*shape))


def _header(folder: ModelFolder, planned: list[_Planned]) -> tuple[bytes, list[int]]:
    """Return the header of the file with all tensors, and the bytes of what is appended to it."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end, sizes = 0, list[int]()
    for each in planned:
        begin, stored = end, folder.tensors[each.name][1]
        for part in each.parts or (PlannedPart(each.name, stored.dtype, stored.shape),):
            size = DTYPE_BYTES[part.dtype] * math.prod(part.shape)
            entries[part.ending] = {
                "dtype": part.dtype,
                "shape": part.shape,
                "data_offsets": (end, end + size),
            }
            end += size
        sizes.append(end - begin)
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header, sizes


def _write(
    folder: ModelFolder,
    planned: list[_Planned],
    encoder: MatrixEncoder,
    importance: Importance,
    spec: QuantizeSpec,
    send: Send,
) -> None:
    header, sizes = _header(folder, planned)
    stamps = [(str(path), path.stat().st_mtime_ns) for path in sorted(_files(folder))]
    weighed = Path(spec.importance).stat().st_mtime_ns if spec.importance else 0
    recipe = f"{stamps}|{spec.target}|{spec.importance}:{weighed}"
    file = ResumableFile(Path(spec.output) / _WEIGHTS, header, sizes, recipe)
    weights = SafetensorsWeights(folder.path, folder.tensors)
    try:
        check_room(file)
        resumed = done = sum(sizes[: file.done])
        for each, size in list(zip(planned, sizes, strict=True))[file.done :]:
            send(QuantizeProgress(each.name, done, sum(sizes), resumed))
            file.append(_encoded(weights, each, encoder, importance.get(each.weighs)))
            done += size
        if stamps != [(str(path), path.stat().st_mtime_ns) for path in sorted(_files(folder))]:
            raise QuantizeFailed(
                f"{folder.path} changed while it was read.", hint="Start again once it is complete."
            )
        # Until the new settings are there, the folder is no model: the old ones contradict it.
        for path in Path(spec.output).iterdir():
            if belongs_to_model(path.name):
                path.unlink()
        file.finish()
    except QuantizeFailed:  # a retry would give the same file
        file.discard()
        raise
    finally:
        file.close()


def _files(folder: ModelFolder) -> set[Path]:
    return {path for path, _ in folder.tensors.values()}


def _encoded(
    weights: SafetensorsWeights,
    planned: _Planned,
    encoder: MatrixEncoder,
    importance: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None,
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    stored = weights.get(planned.name)
    if not bool(stored.isfinite().all()):
        raise QuantizeFailed(
            f"The tensor {planned.name!r} holds values that are not numbers.",
            hint="The model may be damaged: download it again.",
        )
    if not planned.parts:
        tensors = [stored]
    else:
        columns = stored.shape[1]
        counts = None
        if importance is not None and importance.size == columns:
            counts = torch.as_tensor(importance.reshape(columns))
        tensors = encoder.encode(stored.float(), counts)
    return np.concatenate([each.reshape(-1).view(torch.uint8).numpy() for each in tensors])


def _describe(
    folder: ModelFolder, planned: list[_Planned], encoder: MatrixEncoder, output: Path
) -> None:
    """Write the files beside the weights, `config.json` last: without it nothing loads them."""
    left_out = {CONFIG, "model.safetensors.index.json", *SETTINGS_BESIDE}
    for name in sorted(BESIDE - left_out):
        if (folder.path / name).is_file():
            shutil.copyfile(folder.path / name, output / name)
    dense = [
        each.name.removesuffix(".weight")
        for each in planned
        if not each.parts and _may_be_linear(each.name, folder.tensors[each.name][1].shape)
    ]
    settings: Mapping[str, object] = json.loads((folder.path / CONFIG).read_bytes())
    changed = {**settings, "quantization_config": encoder.settings(dense)}
    text = msgspec.json.format(msgspec.json.encode(changed), indent=2)
    temporary = output / f"{CONFIG}.new"
    temporary.write_bytes(text)
    temporary.replace(output / CONFIG)


def _may_be_linear(name: str, shape: tuple[int, ...]) -> bool:
    """Whether readers may take the tensor for that of a linear layer to be quantised."""
    return len(shape) == 2 and name.endswith(".weight") and not name.endswith(_TABLES)


def _check_loads(folder: ModelFolder) -> None:
    """Load the folder with ingle's own engine and compute a few tokens."""
    from ..verification.engine_scorer import EngineScorer

    with closing(EngineScorer(folder.path, context=64, chunk=_PROBE)) as scorer:
        scorer.begin()
        tokens = [token % folder.config.vocab_size for token in range(_PROBE)]
        if not np.isfinite(scorer.read(tokens, 0, _PROBE)).all():
            raise QuantizeFailed(
                f"ingle's engine computes no numbers with {folder.path.name}.",
                hint="Keep the source, and report this as a bug.",
            )
