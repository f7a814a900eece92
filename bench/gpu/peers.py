"""Runs the work of `engine` on other engines: transformers in bfloat16, and llama.cpp if
installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import Any

import torch
from gpu.session import Session, Skipped
from gpu.synthetic import EIGHT_B, TINY
from transformers import AutoModelForCausalLM, LlamaConfig

from ingle.models.config.model_config import ModelConfig

STREAMS = (1, 4, 16)
PROMPT, ANSWER, LONG_PROMPT = 128, 48, 4096
NEEDED_BYTES = 22 << 30


def run(session: Session) -> dict[str, object]:
    """Tokens a second of transformers; of llama.cpp for the file that `LLAMA_BENCH_MODEL` names."""
    if session.free_memory < NEEDED_BYTES:
        raise Skipped(f"there are less than {NEEDED_BYTES >> 30} GiB of free memory")
    result: dict[str, Any] = {"transformers": _transformers(session), "skipped": []}
    tool, model = shutil.which("llama-bench"), os.environ.get("LLAMA_BENCH_MODEL")
    if tool is None or model is None:
        result["skipped"].append("llama.cpp: no llama-bench on PATH, or no LLAMA_BENCH_MODEL")
    else:
        command = [
            tool,
            "-m",
            model,
            "-ngl",
            "99",
            "-p",
            str(LONG_PROMPT),
            "-n",
            "128",
            "-o",
            "json",
        ]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        result["llama_cpp"] = json.loads(told.stdout)
    return result


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines = [
        f"transformers, {row['what']}: {row['tokens_a_second']} tokens/s"
        for row in result["transformers"]
    ]
    lines += [
        f"llama.cpp, {row['n_prompt']} in, {row['n_gen']} out: {row['avg_ts']} tokens/s"
        for row in result.get("llama_cpp", [])
    ]
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


@torch.inference_mode()
def _transformers(session: Session) -> list[dict[str, Any]]:
    model = _model(TINY if session.on_cpu else EIGHT_B, session.device)
    scale = 8 if session.on_cpu else 1
    rows: list[dict[str, Any]] = []
    for streams in STREAMS[:1] if session.on_cpu else STREAMS:
        seconds = _generate(model, streams, PROMPT // scale, ANSWER // scale)
        first = _generate(model, streams, PROMPT // scale, 1)
        said = streams * (ANSWER // scale - 1)
        rate = round(said / max(seconds - first, 1e-9), 1)
        rows.append({"what": f"{streams} streams", "tokens_a_second": rate})
    tokens = LONG_PROMPT // scale
    seconds = _generate(model, 1, tokens, 1)
    rate = round(tokens / seconds, 1)
    return [*rows, {"what": f"a prompt of {tokens} tokens", "tokens_a_second": rate}]


def _generate(model: Any, streams: int, prompt: int, answer: int) -> float:
    """Seconds, the second of two times."""
    tokens = torch.randint(0, model.config.vocab_size, (streams, prompt), device=model.device)
    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=answer,
            min_new_tokens=answer,
            do_sample=False,
            pad_token_id=0,
        )
        if tokens.is_cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return seconds


def _model(config: ModelConfig, device: torch.device) -> Any:
    settings: Any = LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        max_position_embeddings=config.context,
        dtype=torch.bfloat16,
    )
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            make: Any = AutoModelForCausalLM
            model = make.from_config(settings, attn_implementation="sdpa")
            return model.eval()
    finally:
        torch.set_default_dtype(default)
