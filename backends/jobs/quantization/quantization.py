"""Writes a smaller file of a model, and checks that it loads."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple, replace
from pathlib import Path
from typing import cast

import numpy as np

from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.gguf.ggml_types import FILE_TYPES
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.gguf.gguf_writer import PlannedTensor, encode_header, encode_pair, padded
from ingle.models.model_task import ModelTask, task_of

from ...hardware.cpu_inventory import read_inventory
from ...hardware.thread_plan import plan_threads
from ...llama_cpp.ggml_library import GGMLLibrary
from .arrays import Raw
from .gguf_source import FLOATS, GGUFSource
from .importance import find_importance
from .merged_source import MergedSource
from .messages import QuantizeProgress, QuantizeReport, QuantizeSpec
from .quantize_failures import QuantizeFailed, check_room, disk_failure
from .resumable_file import ResumableFile
from .tensor_source import Send, TensorSource
from .type_mixture import choose_types

_FILE_TYPES = {name: number for number, name in FILE_TYPES.items()}
_PROBE = 32
"""Tokens with which the finished file is tested."""


def quantize(spec: QuantizeSpec, send: Send) -> QuantizeReport:
    """Quantise as `spec` says; raises `BackendError` or `ModelError`.

    An interrupted file is resumed by the next call with the same `spec`.
    """
    began = time.monotonic()
    output = Path(spec.output)
    if output.exists() and not spec.overwrite:
        raise QuantizeFailed(
            f"{output} is there already.", hint="Choose another --output, or add --force."
        )
    if output.is_dir():
        raise QuantizeFailed(f"{output} is a folder.", hint="Choose another --output.")
    send(QuantizeProgress("reading the model"))
    source = _open(spec)
    stamp = source.stamp
    if output.exists() and any(output.samefile(path) for path in source.files):
        raise QuantizeFailed(
            f"{output} is the model itself, which is only read.", hint="Choose another --output."
        )
    if spec.importance:
        _weigh(source, spec, send)
    types = choose_types(
        source.tensors, spec.target, source.shape, weighted=bool(source.importance)
    )
    planned = [tensor._replace(type=types[tensor.name]) for tensor in source.tensors]
    pairs = [
        *source.pairs(),
        encode_pair("general.file_type", _FILE_TYPES[spec.target]),
        encode_pair("general.quantization_version", 2),
    ]
    try:
        recipe = f"{stamp}|{spec.target}|{spec.adapter}|{_stamp_of(spec.importance)}"
        sizes = [padded(tensor.bytes) for tensor in planned]
        file = ResumableFile(output, encode_header(pairs, planned), sizes, recipe)
        header = _write_and_check(source, stamp, planned, file, spec, send)
    except OSError as error:
        raise disk_failure(error, output) from error
    return QuantizeReport(
        output=str(output),
        architecture=header.architecture,
        source_quantization=source.quantization,
        quantization=header.quantization,
        source_size=source.size,
        size=output.stat().st_size,
        parameters=header.parameters,
        types=dict(Counter(tensor.type for tensor in planned)),
        weighted=len(source.importance),
        seconds=time.monotonic() - began,
        writes_text=task_of(header) is ModelTask.GENERATE,
    )


def _weigh(source: TensorSource, spec: QuantizeSpec, send: Send) -> None:
    """Set the importance of the source's columns; raises `QuantizeFailed` if none is known."""

    def report(done: int, total: int) -> None:
        send(QuantizeProgress("measuring which weights matter", done, total))

    found = find_importance(Path(spec.importance), Path(spec.source), report)
    for tensor in source.tensors:
        weights = found.get(tensor.name)
        if weights is None or len(tensor.shape) < 2:
            continue
        if weights.size != tensor.shape[0] * math.prod(tensor.shape[2:]):
            raise QuantizeFailed(
                f"{spec.importance} weighs {weights.size} columns of {tensor.name!r}, which has "
                f"{tensor.shape[0]}.",
                hint="Use the file of this very model, or name a text.",
            )
        source.importance[tensor.name] = weights.reshape(-1, tensor.shape[0])
    if not source.importance:
        raise QuantizeFailed(
            f"{spec.importance} weighs no tensor of {source.path.name}.",
            hint="Use the file of this very model, or name a text.",
        )


def _stamp_of(file: str) -> str:
    return f"{file}:{Path(file).stat().st_mtime_ns}" if file else ""


def _open(spec: QuantizeSpec) -> TensorSource:
    source = _open_model(spec)
    return MergedSource(source, Path(spec.adapter)) if spec.adapter else source


def _open_model(spec: QuantizeSpec) -> TensorSource:
    path = Path(spec.source)
    if not path.is_dir():
        return GGUFSource(path, requantize=spec.requantize)
    from .folder_source import FolderSource  # imports PyTorch

    return FolderSource(path)


def _write_and_check(
    source: TensorSource,
    stamp: str,
    planned: Sequence[PlannedTensor],
    file: ResumableFile,
    spec: QuantizeSpec,
    send: Send,
) -> GGUFHeader:
    """Write the file and return its header; it gets its final name only once it is checked."""
    try:
        check_room(file)
        total = sum(math.prod(tensor.shape) for tensor in planned)
        done = resumed = sum(math.prod(tensor.shape) for tensor in planned[: file.done])
        count = spec.threads or plan_threads(read_inventory()).threads
        with ThreadPoolExecutor(count, thread_name_prefix="quantize") as threads:
            library = GGMLLibrary(threads)
            for number, tensor in enumerate(planned[file.done :], start=file.done):
                if number == source.num_metadata_tensors:
                    _check_header(source, file)
                send(QuantizeProgress(tensor.name, done, total, resumed))
                file.append(_convert(source, tensor, library))
                done += math.prod(tensor.shape)
        send(QuantizeProgress("writing", done, total, resumed))
        if source.stamp != stamp:
            raise QuantizeFailed(
                f"{source.path} changed while it was read.", hint="Start again once it is complete."
            )
        send(QuantizeProgress("checking the new file"))
        header = read_header(file.part)
        _check_loads(file.part, header)
        file.finish()
        return header
    except QuantizeFailed:  # a retry would give the same file
        file.discard()
        raise
    finally:
        file.close()


def _convert(source: TensorSource, tensor: PlannedTensor, library: GGMLLibrary) -> Raw:
    raw = source.raw(tensor)
    if raw is not None and tensor.type not in FLOATS:
        return raw
    rows = source.floats(tensor, library)
    if not np.isfinite(rows).all():
        raise QuantizeFailed(
            f"The tensor {tensor.name!r} holds values that are not numbers.",
            hint="The model may be damaged: download it again.",
        )
    if raw is not None:
        return raw
    largest = max(rows.max(initial=0.0), -rows.min(initial=0.0))
    if tensor.type == "F16" and largest > np.finfo(np.float16).max:
        raise QuantizeFailed(
            f"The tensor {tensor.name!r} holds values too large for float16.",
            hint="Choose BF16, or a quantised type.",
        )
    return library.encode(rows, tensor.type, source.importance.get(tensor.name))


def _check_header(source: TensorSource, file: ResumableFile) -> None:
    """Raise unless the header to be written expresses all settings of a folder, before any work."""
    wanted = source.config
    if wanted is None:
        return  # the keys of a GGUF file are copied unchanged
    written = config_from_gguf(read_header(file.part))
    wanted = replace(wanted, tied_embeddings=written.tied_embeddings)
    if wanted.latent is not None:  # llama.cpp knows one epsilon for all norms
        latent = replace(wanted.latent, norm_epsilon=wanted.norm_epsilon)
        wanted = replace(wanted, latent=latent)
    if not _same(astuple(written), astuple(wanted)):
        raise QuantizeFailed(
            f"A GGUF file cannot say all that {source.path}/config.json says of the model.",
            hint="Look for a GGUF edition of the model, or run the folder as it is.",
        )


def _same(one: object, other: object) -> bool:
    """Return whether two settings are equal, numbers to the precision of float32."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    if isinstance(one, tuple) and isinstance(other, tuple):
        ours, theirs = cast("tuple[object, ...]", one), cast("tuple[object, ...]", other)
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return one == other


def _check_loads(path: Path, header: GGUFHeader) -> None:
    """Load the file with llama.cpp and compute a few tokens."""
    from ..verification.llama_scorer import LlamaScorer

    with closing(LlamaScorer(path, context=512, chunk=_PROBE)) as scorer:
        scorer.begin()
        tokens = [token % header.vocab_size for token in range(_PROBE)]
        if not np.isfinite(scorer.read(tokens, 0, _PROBE)).all():
            raise QuantizeFailed(
                f"llama.cpp computes no numbers with {path.name}.",
                hint="Keep the source, and report this as a bug.",
            )
