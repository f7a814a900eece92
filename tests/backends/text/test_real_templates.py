"""The chat templates that llama.cpp tests itself with, from the sdist of its Python binding."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base import ChatMessage
from ingle.backends.errors import RequestRejected
from ingle.backends.text.chat_template import ChatTemplate
from ingle.backends.text.template_helper import RenderLimits

SDIST = "llama-cpp-python==0.3.36"
FOLDER = "vendor/llama.cpp/models/templates/"
CONVERSATION = [
    ChatMessage("system", "SYS"),
    ChatMessage("user", "U1"),
    ChatMessage("assistant", "A1"),
    ChatMessage("user", "U2"),
]
# They walk through their tools without looking whether there are any, as in transformers.
NEED_TOOLS = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "fireworks-ai-llama-3-firefunction-v2",
}
EXPECTED = {
    "Qwen-Qwen2.5-7B-Instruct": (
        "<|im_start|>system\nSYS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n"
        "<|im_start|>assistant\nA1<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n"
        "<|im_start|>assistant\n"
    ),
    "google-gemma-2-2b-it": (
        "<s><start_of_turn>user\nSYS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
        "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n"
    ),
    "microsoft-Phi-3.5-mini-instruct": (
        "<|system|>\nSYS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n"
        "<|user|>\nU2<|end|>\n<|assistant|>\n"
    ),
    "mistralai-Mistral-Nemo-Instruct-2407": "<s>[INST]U1[/INST]A1</s>[INST]SYS\n\nU2[/INST]",
    "meta-llama-Llama-3.1-8B-Instruct": (
        "<s><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nSYS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU1<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU2<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
}

MakeTemplate = Callable[..., ChatTemplate]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of templates, fetched once with whatever package index is configured."""
    folder = request.config.cache.mkdir("llama-cpp-templates")  # pyright: ignore[reportOptionalMemberAccess]
    if not any(folder.glob("*.jinja")):
        download = tmp_path_factory.mktemp("sdist")
        options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(download)]
        subprocess.run(
            [sys.executable, "-P", "-m", "pip", "download", *options, SDIST],
            check=True,
            cwd=download,
        )
        with tarfile.open(next(download.glob("*.tar.gz"))) as archive:
            for member in archive:
                _, _, name = member.name.partition(FOLDER)
                content = archive.extractfile(member) if name.endswith(".jinja") else None
                if content is not None:
                    (folder / Path(name).name).write_bytes(content.read())
    return folder


def test_every_template_renders_or_says_why_not(
    make_template: MakeTemplate, sources: Path, record_property: Callable[[str, object], None]
) -> None:
    rendered: set[str] = set()
    failed: dict[str, str] = {}
    for path in sorted(sources.glob("*.jinja")):
        template = make_template(path.read_text("utf-8"), limits=RenderLimits())
        try:
            text = template.render(CONVERSATION)
        except RequestRejected as error:
            failed[path.stem] = error.message
        else:
            rendered.add(path.stem)
            assert all(message.content in text for message in CONVERSATION), path.stem
        template.close()
    record_property("rendered", len(rendered))
    record_property("failed", failed)
    assert failed.keys() == NEED_TOOLS
    assert len(rendered) >= 60


@pytest.mark.parametrize("name", EXPECTED)
def test_exact_prompts(make_template: MakeTemplate, sources: Path, name: str) -> None:
    template = make_template((sources / f"{name}.jinja").read_text("utf-8"))
    assert template.render(CONVERSATION) == EXPECTED[name]
