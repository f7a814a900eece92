"""Predicts the time of attention on other GPUs, from bytes and instructions.

python bench/gpu/predict_attention.py

Works as `predict.py`; Triton compiles the kernels, which needs no GPU either.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu.predict import GPU, GPUS
from gpu.tables import markdown
from kernel_harness.cubin_report import KernelReport, cubin_report

from ingle.kernels.attention.attention_variant import AttentionVariant, PageType, chunk_rows
from ingle.kernels.attention.triton_build import compile_attention
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat

# Llama-3.1-8B.
LAYERS, KV_HEADS, GROUP, HEAD_SIZE = 32, 8, 4, 128
CONTEXTS = (4096, 32768)
PROMPT = 4096
PAGES: tuple[PageType, ...] = ("f16", "q8_0", "q4_0")
# Operations of products that a processor does in a clock: 16-bit, summed in 32 bits.
OPERATIONS = {"sm_86": 512, "sm_89": 1024, "sm_90": 4096, "sm_120": 1024}


def key_bytes(pages: PageType) -> int:
    """Of a token's key and value for one head."""
    if pages in ("q8_0", "q4_0"):
        return 2 * KVPageFormat(8 if pages == "q8_0" else 4, HEAD_SIZE).nbytes
    return 4 * HEAD_SIZE


def lanes_a_key(variant: AttentionVariant, gpu: GPU, report: KernelReport) -> float:
    """Instructions of single lanes for a token of one head."""
    shape = variant.shape(gpu.architecture)
    return report.loop_instructions * shape.warps * 32 / shape.tile


def decode_seconds(
    variant: AttentionVariant, gpu: GPU, report: KernelReport, context: int
) -> float:
    """Return the time of all layers for one token: the larger of memory and instructions."""
    memory = key_bytes(variant.pages) / gpu.bytes_a_second
    issue = lanes_a_key(variant, gpu, report) / gpu.lanes_a_second
    return LAYERS * KV_HEADS * context * max(memory, issue)


def prompt_seconds(variant: AttentionVariant, gpu: GPU, report: KernelReport, tokens: int) -> float:
    """Of all layers for a prompt: tensor cores or instructions, for keys before each query."""
    rows = tokens * GROUP * KV_HEADS * LAYERS
    pairs = rows * (tokens + 1) / 2
    products = pairs * 4 * HEAD_SIZE / (OPERATIONS[gpu.architecture] * gpu.num_sms * gpu.hertz)
    issue = pairs / variant.rows * lanes_a_key(variant, gpu, report) / gpu.lanes_a_second
    return max(products, issue)


def tables() -> Iterable[str]:
    """Registers and instructions by kernel, then milliseconds by context."""
    facts: list[list[str]] = []
    times: list[list[str]] = []
    for pages in PAGES:
        split = AttentionVariant("attend_split", HEAD_SIZE, "bf16", pages, 16)
        chunk = AttentionVariant("attend_chunk", HEAD_SIZE, "bf16", pages, chunk_rows(HEAD_SIZE, 0))
        found: dict[tuple[str, str], KernelReport] = {}
        for variant in (split, chunk):
            row = [f"{variant.kernel}, {pages}"]
            for gpu in GPUS:
                compiled = compile_attention(variant, gpu.architecture)
                report = cubin_report(compiled.cubin)[compiled.kernel]
                found[variant.kernel, gpu.name] = report
                tile = variant.shape(gpu.architecture).tile
                kilobytes = compiled.shared_bytes / 1024
                row.append(f"{report.registers} · {kilobytes:.0f} KB · {tile}")
            facts.append(row)
        for context in CONTEXTS:
            row = [f"a token behind {context}, {pages}"]
            for gpu in GPUS:
                report = found["attend_split", gpu.name]
                share = lanes_a_key(split, gpu, report) / gpu.lanes_a_second
                share /= key_bytes(pages) / gpu.bytes_a_second
                seconds = decode_seconds(split, gpu, report, context)
                row.append(f"{1000 * seconds:.2f} ms · {100 * share:.0f} %")
            times.append(row)
        row = [f"a prompt of {PROMPT}, {pages}"]
        for gpu in GPUS:
            seconds = prompt_seconds(chunk, gpu, found["attend_chunk", gpu.name], PROMPT)
            row.append(f"{1000 * seconds:.0f} ms")
        times.append(row)
    names = [gpu.name for gpu in GPUS]
    yield markdown(["kernel, pages", *names], facts)
    yield markdown(["Llama-3.1-8B, all layers", *names], times)


if __name__ == "__main__":
    print("\n\n".join(tables()))
