"""Files over which llama.cpp would abort, or hang, are refused.

Source: the assertions of llama-vocab.cpp, llama-model.cpp and llama-model-loader.cpp, which
docs/model-safety.md lists.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.base.errors import FileRejected
from ingle.backends.llama_cpp.llama_tokenizer import LlamaVocabulary
from ingle.models.errors import InvalidModel
from ingle.models.gguf.gguf_header import read_header

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

ROOT = Path(__file__).parents[3]
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL, BYTE = 1, 3, 6
BYTES = [f"<0x{value:02X}>" for value in range(256)]
WORDS = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(130))]

VOCABULARIES: dict[str, tuple[str, list[str], int, bool, str]] = {
    "a name that is given to an empty token": ("gpt2", ["", "[EMPTY_0]"], NORMAL, False, "twice"),
    "the same token twice": ("gpt2", ["a", "b", "a"], NORMAL, False, "'a' twice"),
    "no vocabulary": ("no_vocab", WORDS, NORMAL, False, "no vocabulary"),
    "BPE without a first token": ("gpt2", ["a", "b"], NORMAL, True, "begins or ends"),
    "SentencePiece without one": ("llama", ["a"], NORMAL, True, "begins or ends"),
    "SentencePiece without bytes": ("llama", WORDS, NORMAL, False, "for the byte 0x00"),
    "unigrams without a first token": ("t5", WORDS, NORMAL, True, "begins or ends"),
    "WordPiece without a first token": ("bert", WORDS[:9], NORMAL, False, "begins or ends"),
    "bytes in WordPiece": ("bert", [*WORDS, *BYTES], BYTE, False, "tokens of bytes"),
    "RWKV's trie without a first byte": ("rwkv", ["\\x61b", "b"], NORMAL, False, "byte 0x61"),
}
_EXPERTS = {"expert_count": 8, "expert_used_count": 2}
NUMBERS: dict[str, dict[str, Any]] = {
    "more drafting blocks than blocks": {"nextn_predict_layers": 3},
    "too many experts": {"expert_count": 1025, "expert_used_count": 2},
    "no expert is used": {"expert_count": 8},
    "experts without any": {"expert_used_count": 4},
    "more experts than there are in a block": {"expert_count": 8, "expert_used_count": [9, 1]},
    "groups without experts": {"expert_group_count": 2},
    "as many groups as experts": _EXPERTS | {"expert_group_count": 8, "expert_group_used_count": 1},
    "unequal groups": _EXPERTS | {"expert_group_count": 3, "expert_group_used_count": 1},
    "no group is used": _EXPERTS | {"expert_group_count": 2},
    "all groups are used": _EXPERTS | {"expert_group_count": 2, "expert_group_used_count": 2},
    "an unknown scaling": {"rope.scaling.type": "magic"},
}
LOADS = """
import sys, llama_cpp
params = llama_cpp.llama_model_default_params()
params.vocab_only = sys.argv[2] == "vocabulary"
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), params)
vocab = llama_cpp.llama_model_get_vocab(model)
tokens = (llama_cpp.llama_token * 64)()
llama_cpp.llama_tokenize(vocab, b"a word \\x01", 8, tokens, 64, True, True)
"""


def write_vocabulary(tiny: GGUFBuilder, tmp_path: Path, name: str) -> Path:
    model, tokens, kind, adds_bos, _ = VOCABULARIES[name]
    tiny.set("tokenizer.ggml.model", STRING, model).set("tokenizer.ggml.pre", STRING, "default")
    tiny.set("tokenizer.ggml.tokens", ARRAY, tokens)
    tiny.set("tokenizer.ggml.token_type", ARRAY, [kind] * len(tokens), INT32)
    tiny.set("tokenizer.ggml.scores", ARRAY, [0.0] * len(tokens), FLOAT32)
    tiny.set("tokenizer.ggml.merges", ARRAY, ["a b"])
    tiny.set("tokenizer.ggml.add_bos_token", BOOL, adds_bos)
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny.build())
    return path


def write_numbers(tiny: GGUFBuilder, tmp_path: Path, name: str) -> Path:
    for key, value in NUMBERS[name].items():
        kind = STRING if isinstance(value, str) else ARRAY if isinstance(value, list) else UINT32
        tiny.set(f"llama.{key}", kind, value, UINT32)
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny.build())
    return path


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabulary_is_refused(tiny: GGUFBuilder, tmp_path: Path, name: str) -> None:
    path = write_vocabulary(tiny, tmp_path, name)
    with pytest.raises(FileRejected) as caught:
        LlamaVocabulary(path)
    assert VOCABULARIES[name][-1] in caught.value.message


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_refused(tiny: GGUFBuilder, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidModel):
        read_header(write_numbers(tiny, tmp_path, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VOCABULARIES, *NUMBERS])
def test_llama_cpp_itself_aborts_or_hangs(tiny: GGUFBuilder, tmp_path: Path, name: str) -> None:
    kind = "vocabulary" if name in VOCABULARIES else "numbers"
    write = write_vocabulary if name in VOCABULARIES else write_numbers
    command = [sys.executable, "-P", "-c", LOADS, str(write(tiny, tmp_path, name)), kind]
    environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
    try:
        ended = subprocess.run(
            command, capture_output=True, env=environment, timeout=5, check=False
        )
    except subprocess.TimeoutExpired:
        assert VOCABULARIES[name][0] == "rwkv"
        return
    assert ended.returncode < 0, ended.stderr.decode()[-500:]


def test_list_is_of_the_version_in_use() -> None:
    """Read the assertions of a new version, and the page says of which they are."""
    page = (ROOT / "docs" / "model-safety.md").read_text()
    assert f"llama-cpp-python {version('llama-cpp-python')}" in page
