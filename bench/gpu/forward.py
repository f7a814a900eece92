"""Tests and times the engine's model code on this GPU, without kernels and graphs.

A small model's logits beside the CPU's; then a step of Llama-3.1-8B's shape in bfloat16, launch by
launch.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from gpu.random_model import Pages, RandomWeights, llama_config
from gpu.session import Session

from ingle.kernels.operations import Operations
from ingle.models.config.model_config import ModelConfig
from ingle.models.layers.transformer import Transformer

SMALL = llama_config(layers=3, hidden=256, heads=8, kv_heads=2, intermediate=512, vocabulary=1000)
LARGE = llama_config(
    layers=32, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256
)
# float32 on two devices; bfloat16 rounds by 0.4 % in every layer.
TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2}
CONTEXT, PROMPT = 512, 2048
LARGE_BYTES = 20 << 30
# (tokens of each sequence before, new ones), as prompts in parts and decoding have them.
STEPS = ((0, 37), (37, 1), (38, 5), (43, 64))


def run(session: Session) -> dict[str, object]:
    """Errors of logits by type, and milliseconds of steps."""
    errors = {name: error(session.device, name) for name in TOLERANCES}
    result: dict[str, Any] = {
        "errors": errors,
        "ok": all(errors[name] <= bound for name, bound in TOLERANCES.items()),
        "skipped": [],
    }
    if session.free_memory < LARGE_BYTES:
        result["skipped"].append("timings: there are less than 20 GiB of free memory")
    else:
        result["steps"] = timings(session)
    return result


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines = [
        f"logits in {name} differ from the CPU's by {found:.1e}"
        for name, found in result["errors"].items()
    ]
    lines += [f"8B in bfloat16, {row['what']}: {row['ms']} ms" for row in result.get("steps", [])]
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def error(device: torch.device, dtype: str) -> float:
    """The largest relative error of logits over several steps of two sequences."""
    cpu = torch.device("cpu")
    theirs, ours = (
        logits(SMALL, where, kind)
        for where, kind in ((cpu, torch.float32), (device, getattr(torch, dtype)))
    )
    return max(
        float(((a - b) ** 2).sum().sqrt() / (a**2).sum().sqrt())
        for a, b in zip(theirs, ours, strict=True)
    )


@torch.inference_mode()
def logits(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
    """Of every token of every step, on the CPU; weights and tokens are the same everywhere."""
    weights = RandomWeights(config, torch.device("cpu"))
    operations = Operations(dtype)
    model = Transformer(config, weights, device=device, operations=operations)
    pages = Pages(config, operations, sequences=2, room=128, device=device)
    generator = torch.Generator().manual_seed(1)
    found: list[torch.Tensor] = []
    for start, count in STEPS:
        tokens = torch.randint(0, config.vocab_size, (2 * count,), generator=generator)
        positions = pages.place(start, count)
        rows = torch.arange(2 * count, device=device)
        found.append(model.forward(tokens.to(device), positions, pages, rows).cpu())
    return found


@torch.inference_mode()
def timings(session: Session) -> list[dict[str, Any]]:
    """Of decoding with 1, 4 and 16 sequences, and of a prompt, as Python launches them."""
    config = SMALL if session.on_cpu else LARGE
    weights = RandomWeights(config, session.device)
    model = Transformer(
        config, weights, device=session.device, operations=Operations(torch.bfloat16)
    )
    rows: list[dict[str, Any]] = []
    for sequences in (1, 4, 16):
        what = f"decode, {sequences} sequences of {CONTEXT} tokens"
        rows.append({"what": what, "ms": milliseconds(session, model, sequences, CONTEXT, 1)})
    what = f"a prompt of {PROMPT} tokens"
    rows.append({"what": what, "ms": milliseconds(session, model, 1, 0, PROMPT)})
    return rows


def milliseconds(
    session: Session, model: Transformer, sequences: int, start: int, count: int
) -> float:
    """The median of a step, waiting included."""
    device, room = session.device, start + count
    operations = Operations(torch.bfloat16)
    pages = Pages(model.config, operations, sequences=sequences, room=room, device=device)
    tokens = torch.randint(0, 1000, (sequences * count,), device=device)
    positions = pages.place(start, count)
    last = torch.arange(1, sequences + 1, device=device) * count - 1
    times: list[float] = []
    for _ in range(8):
        session.synchronize()
        began = time.perf_counter()
        model.forward(tokens, positions, pages, last)
        session.synchronize()
        times.append(time.perf_counter() - began)
    return round(statistics.median(times[2:]) * 1000, 2)
