"""docs/models.md lists every family, and says of each what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingle.models.families.family_registry import FAMILIES, HF_MODEL_TYPES
from tests.backends.text.tool_calls.test_template_formats import (
    EXPECTED_FORMATS,
    WITHOUT_REASONING,
)

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "docs" / "models.md").read_text("utf-8")
_NAME = re.compile(r"`([^`]+)`")
_TEMPLATES = {
    "`llama`, `mistral`": (
        "meta-llama-Llama-3.3-70B-Instruct",
        "mistralai-Mistral-Nemo-Instruct-2407",
    ),
    "`mistral3`": (
        "Mistral-Small-3.2-24B-Instruct-2506",
        "unsloth-mistral-Devstral-Small-2507",
    ),
    "`ministral3`": ("mistralai-Ministral-3-14B-Reasoning-2512",),
    "`qwen2`": ("Qwen-Qwen2.5-7B-Instruct",),
    "`qwen3`": ("Qwen-Qwen3-0.6B",),
    "`gemma2`": ("google-gemma-2-2b-it",),
    "`gemma4_text`": ("google-gemma-4-31B-it", "google-gemma-4-31B-it-interleaved"),
    "`granite`": ("ibm-granite-granite-3.3-2B-Instruct", "ibm-granite-granite-4.1"),
    "`smollm3`": ("HuggingFaceTB-SmolLM3-3B",),
    "`seed_oss`": ("ByteDance-Seed-OSS",),
    "`lfm2`": ("LFM2.5-Instruct",),
    "`lfm2_moe`": ("LFM2-8B-A1B", "LFM2.5-8B-A1B"),
    "`qwen3_5_text`": ("Qwen3.5-4B",),
    "`qwen3_5_moe_text`": ("Qwen3.5-4B",),
    "`granitemoehybrid`": ("ibm-granite-granite-4.0",),
    "`nemotron_h`": ("NVIDIA-Nemotron-Nano-v2", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    "`qwen3_moe`": ("Qwen-Qwen3-0.6B", "Qwen3-Coder"),
    "`glm4_moe`": ("GLM-4.6",),
    "`glm4_moe_lite`": ("GLM-4.7-Flash",),
    "`deepseek_v2`": ("deepseek-ai-DeepSeek-V3.1",),
    "`granitemoe`": ("ibm-granite-granite-3.3-2B-Instruct",),
    "`gpt_oss`": ("openai-gpt-oss-120b",),
}
"""Published templates, by the beginning of a row's third cell; Phi-4-mini has none in the tests."""


def _rows() -> list[list[str]]:
    table = _PAGE.split("\n\n")[2].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_every_family_has_a_row() -> None:
    rows = _rows()
    assert {name for row in rows for name in _NAME.findall(row[1])} == FAMILIES.keys()
    types = {name for row in rows for name in _NAME.findall(row[2])}
    outer = {name for _, kind in HF_MODEL_TYPES.values() for name in kind.multimodal_types}
    assert types == HF_MODEL_TYPES.keys() | outer


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[0])
def test_row_is_true(row: list[str]) -> None:
    (family,) = {FAMILIES[name].name: FAMILIES[name] for name in _NAME.findall(row[1])}.values()
    assert row[3].startswith("all" if family.has_kernels else "none")
    assert row[4].startswith("own engine" if family.has_kernels else "llama.cpp")
    assert row[5:7] == ["yes", "yes"]
    templates = next((found for start, found in _TEMPLATES.items() if row[2].startswith(start)), ())
    if templates:
        assert set(_NAME.findall(row[7])) == {EXPECTED_FORMATS[name] for name in templates}
        assert row[8] == ("–" if WITHOUT_REASONING.issuperset(templates) else "yes")


def test_named_tests_exist() -> None:
    paths = {name for name in _NAME.findall(_PAGE) if name.startswith("tests/")}
    assert len(paths) > 10
    assert [path for path in paths if not (_ROOT / path).exists()] == []
