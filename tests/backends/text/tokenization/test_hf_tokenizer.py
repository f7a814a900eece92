"""`HFTokenizer` on small trained vocabularies, compared with transformers."""

from __future__ import annotations

import importlib
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.text.structured_output.grammar_compiler import GrammarCompiler
from ingle.backends.text.tokenization.hf_tokenizer import HFTokenizer
from ingle.models.errors import InvalidModel, UnsupportedModel

TrainTokenizer = Callable[[str], Path]

KINDS = ["byte_level", "llama3", "sentencepiece_bpe", "unigram"]
TEXTS = [
    "",
    " ",
    "  \t \n\n\r\n ",
    "Hello, world! How's it going?",
    "trailing spaces   ",
    " " * 100 + "x" + "\n" * 40,
    "1234567890 3.14159 0x7f",
    "naïve café Ångström — „Zitat“",
    "日本語のテキスト、中文字符，한국어",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag 👍🏽",
    "e\u0301 against é, \u202eright to left\u202c, \u200bzero width",
    "\x00\x01\x7f control \ufeff mark",
    "<s>[INST] not </s> special <unk>",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><tool_call>{}",
    "▁already ▁marked▁",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff",
    "def f(x):\n    return x ** 2  # comment\n",
]


def load_reference(folder: Path) -> Any:
    transformers: Any = importlib.import_module("transformers")
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, train_tokenizer: TrainTokenizer) -> Path:
    return train_tokenizer(request.param)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> HFTokenizer:
    return HFTokenizer(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    return load_reference(folder)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_tokens_match_transformers(tokenizer: HFTokenizer, reference: Any, text: str) -> None:
    for add in (True, False):
        expected = reference(text, add_special_tokens=add)["input_ids"]
        assert tokenizer.encode(text, add_special=add, parse_special=True) == expected
        expected = reference(text, add_special_tokens=add, split_special_tokens=True)["input_ids"]
        assert tokenizer.encode(text, add_special=add, parse_special=False) == expected


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_token_bytes_add_up_to_the_text(tokenizer: HFTokenizer, text: str) -> None:
    """Except for a leading space that some vocabularies add, and their own space mark."""
    tokens = tokenizer.encode(text, add_special=False, parse_special=False)
    decoded = b"".join(tokenizer.token_bytes(token, special=True) for token in tokens).decode()
    space, mark = (tokenizer.encode(sign, add_special=False, parse_special=False) for sign in " ▁")
    text = text.replace("▁", " ") if space == mark else text
    assert decoded in (text, " " + text)


def test_token_bytes_match_transformers_decoding(tokenizer: HFTokenizer, reference: Any) -> None:
    """Except for added tokens, which transformers decodes as bytes in byte-level vocabularies."""
    anchor = tokenizer.encode("x", add_special=False, parse_special=False)
    before = reference.decode(anchor)
    for token in set(range(len(reference))) - reference.added_tokens_decoder.keys():
        with_token = reference.decode([*anchor, token], skip_special_tokens=True)
        assert with_token.removeprefix(before) == tokenizer.token_bytes(token).decode(
            errors="replace"
        )


def test_every_byte_has_a_token(tokenizer: HFTokenizer) -> None:
    single = {tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)}
    assert {bytes([byte]) for byte in range(256)} <= single


def test_lone_surrogate_is_replaced(tokenizer: HFTokenizer) -> None:
    options: dict[str, bool] = {"add_special": False, "parse_special": True}
    assert tokenizer.encode("a\ud800b", **options) == tokenizer.encode("a?b", **options)


def test_concurrent_encoding_with_different_options(tokenizer: HFTokenizer) -> None:
    text = "<|im_end|></s><|eot_id|> and more of it" * 20
    expected = {
        parse_special: tokenizer.encode(text, add_special=False, parse_special=parse_special)
        for parse_special in (True, False)
    }
    mismatches: list[bool] = []

    def encode_repeatedly(parse_special: bool) -> None:
        for _ in range(100):
            if (
                tokenizer.encode(text, add_special=False, parse_special=parse_special)
                != expected[parse_special]
            ):
                mismatches.append(parse_special)

    threads = [
        threading.Thread(target=encode_repeatedly, args=(number % 2 == 0,)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mismatches == []


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"type": "object", "required": ["é"]})),
        Grammar(GrammarKind.REGEX, r"([0-9]{3} )?ünï[a-z]+"),
    ],
    ids=["schema", "regex"],
)
def test_grammars_can_be_followed_with_the_vocabulary(
    tokenizer: HFTokenizer, grammar: Grammar
) -> None:
    constraint = GrammarCompiler(tokenizer).compile(grammar)
    rng = np.random.default_rng(5)
    written = b""
    while not constraint.complete and len(written) < 200:
        allowed = rng.permutation(np.flatnonzero(constraint.mask())).tolist()
        # The longest of some allowed tokens makes progress fastest.
        token = max(allowed[:20], key=lambda token: len(tokenizer.token_bytes(token)))
        constraint.consume(token)
        written += tokenizer.token_bytes(token)
    assert constraint.error is None
    assert written.startswith((b'{"', b"\xc3\xbc")) or written[:3].isdigit()


@pytest.fixture
def folder_copy(train_tokenizer: TrainTokenizer, tmp_path: Path) -> Path:
    """A copy of the byte-level tokenizer's folder, to be modified."""
    return shutil.copytree(train_tokenizer("byte_level"), tmp_path / "copy")


def update_json(folder: Path, file: str, **fields: object) -> Path:
    path = folder / file
    old: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, **fields}))
    return folder


def test_properties_of_a_byte_level_vocabulary(folder_copy: Path) -> None:
    tokenizer = HFTokenizer(folder_copy)
    assert (tokenizer.bos_text, tokenizer.eos_text, tokenizer.adds_bos) == ("", "<|im_end|>", False)
    assert tokenizer.chat_template is None
    assert tokenizer.find_token("<|im_start|>") is not None
    assert tokenizer.find_token("the") is None
    end_tokens = [token for token in range(tokenizer.vocab_size) if tokenizer.is_eog(token)]
    texts = {tokenizer.token_bytes(token, special=True) for token in end_tokens}
    assert texts == {b"<|im_end|>", b"<|endoftext|>"}
    assert {tokenizer.token_bytes(token) for token in end_tokens} == {b""}
    (tool,) = tokenizer.encode("<tool_call>", add_special=False, parse_special=False)
    assert tokenizer.token_bytes(tool) == b"<tool_call>"
    (accented,) = tokenizer.encode("naïve", add_special=False, parse_special=False)
    assert tokenizer.token_bytes(accented) == "naïve".encode()


@pytest.mark.parametrize("flag", [True, False])
def test_special_tokens_are_determined_by_tokenizer_json(
    train_tokenizer: TrainTokenizer, folder_copy: Path, flag: bool
) -> None:
    """As in transformers; the flags apply to vocabularies in other formats."""
    llama = shutil.copytree(train_tokenizer("llama3"), folder_copy.parent / "llama3")
    for folder, adds_bos in ((folder_copy, False), (llama, True)):
        update_json(folder, "tokenizer_config.json", add_bos_token=flag, add_eos_token=flag)
        tokenizer = HFTokenizer(folder)
        reference = load_reference(folder)
        found = tokenizer.encode("hi", add_special=True, parse_special=True)
        assert found == reference("hi")["input_ids"]
        assert tokenizer.adds_bos is adds_bos


def test_end_tokens_are_read_from_several_files(folder_copy: Path) -> None:
    start, the = (
        HFTokenizer(folder_copy).encode(text, add_special=False, parse_special=True)[0]
        for text in ("<|im_start|>", "a")
    )
    update_json(folder_copy, "generation_config.json", eos_token_id=[start, 10**9, "x"])
    update_json(folder_copy, "config.json", text_config={"eos_token_id": the})
    tokenizer = HFTokenizer(folder_copy)
    assert tokenizer.is_eog(start)
    assert tokenizer.is_eog(the)
    assert not tokenizer.is_eog(10**9)


def test_grammars_require_an_end_token(folder_copy: Path) -> None:
    content = json.loads((folder_copy / "tokenizer.json").read_text())
    added = [token for token in content["added_tokens"] if "end" not in token["content"]]
    update_json(folder_copy, "tokenizer.json", added_tokens=added)
    update_json(folder_copy, "tokenizer_config.json", eos_token=None)
    tokenizer = HFTokenizer(folder_copy)
    assert not any(map(tokenizer.is_eog, range(tokenizer.vocab_size)))
    with pytest.raises(RequestRejected, match="no token that ends an answer"):
        GrammarCompiler(tokenizer).compile(Grammar(GrammarKind.REGEX, "[0-9]+"))


def test_padding_rows_of_the_vocabulary_are_empty(folder_copy: Path) -> None:
    plain = HFTokenizer(folder_copy)
    update_json(folder_copy, "config.json", vocab_size=plain.vocab_size + 64)
    tokenizer = HFTokenizer(folder_copy)
    assert tokenizer.vocab_size == plain.vocab_size + 64
    assert tokenizer.token_bytes(plain.vocab_size + 3, special=True) == b""
    assert not tokenizer.is_eog(plain.vocab_size + 3)
    assert HFTokenizer(folder_copy, plain.vocab_size + 128).vocab_size == plain.vocab_size + 128
    constraint = GrammarCompiler(tokenizer).compile(Grammar(GrammarKind.REGEX, "[0-9]+"))
    assert not constraint.mask()[plain.vocab_size :].any()


def test_added_tokens_beyond_the_model_are_encoded_as_text(folder_copy: Path) -> None:
    plain = HFTokenizer(folder_copy)
    truncated = HFTokenizer(folder_copy, plain.vocab_size - 2)
    tokens = truncated.encode("<tool_call>", add_special=True, parse_special=True)
    assert max(tokens) < truncated.vocab_size
    assert b"".join(map(truncated.token_bytes, tokens)) == b"<tool_call>"
    with pytest.raises(InvalidModel, match="and the model 100"):
        HFTokenizer(folder_copy, 100)


def test_added_token_from_the_tokenizer_config(folder_copy: Path) -> None:
    plain = HFTokenizer(folder_copy)
    token = {"content": "<|new|>", "special": True, "normalized": False}
    listed = {str(plain.vocab_size): token, "0": {"content": "<|endoftext|>", "special": True}}
    update_json(folder_copy, "tokenizer_config.json", added_tokens_decoder=listed)
    tokenizer = HFTokenizer(folder_copy)
    reference = load_reference(folder_copy)
    assert (
        tokenizer.encode("a<|new|>b", add_special=False, parse_special=True)
        == (reference("a<|new|>b")["input_ids"])
    )
    assert tokenizer.token_bytes(plain.vocab_size) == b""


def test_padding_and_truncation_settings_are_ignored(folder_copy: Path) -> None:
    tokenizers: Any = importlib.import_module("tokenizers")
    file = str(folder_copy / "tokenizer.json")
    saved = tokenizers.Tokenizer.from_file(file)
    saved.enable_truncation(4)
    saved.enable_padding(length=64)
    saved.save(file)
    tokens = HFTokenizer(folder_copy).encode(
        "one two three " * 5, add_special=True, parse_special=True
    )
    assert len(tokens) not in (4, 64)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ 1 }}", "{{ 1 }}"),
        ([{"name": "rag", "template": "a"}, {"name": "default", "template": "b"}], "b"),
        ([{"name": "tool_use", "template": "a"}], "a"),
        ([], None),
        (7, None),
    ],
)
def test_chat_template_sources(folder_copy: Path, template: object, expected: str | None) -> None:
    update_json(folder_copy, "tokenizer_config.json", chat_template=template)
    assert HFTokenizer(folder_copy).chat_template == expected
    (folder_copy / "chat_template.jinja").write_text("{{ file }}")
    assert HFTokenizer(folder_copy).chat_template == "{{ file }}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "is not there"),
        ("", "is not a valid tokenizer"),
        ("{}", "is not a valid tokenizer"),
        ("[" * 100_000, "is not a valid tokenizer"),
        (
            '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}}}',
            "is not a valid tokenizer",
        ),
    ],
)
def test_invalid_tokenizer_file_is_rejected(
    folder_copy: Path, content: str | None, reason: str
) -> None:
    (folder_copy / "tokenizer.json").unlink()
    if content is not None:
        (folder_copy / "tokenizer.json").write_text(content)
    with pytest.raises(InvalidModel, match=reason) as caught:
        HFTokenizer(folder_copy)
    assert caught.value.message.isprintable()


def test_unsupported_decoder_is_rejected(folder_copy: Path) -> None:
    update_json(
        folder_copy,
        "tokenizer.json",
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
    )
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        HFTokenizer(folder_copy)
    update_json(folder_copy, "tokenizer.json", decoder=None)
    with pytest.raises(UnsupportedModel, match="no decoder"):
        HFTokenizer(folder_copy)
