"""`HFTokenizer` on small vocabularies that were really trained, against transformers."""

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


def load_theirs(folder: Path) -> Any:
    transformers: Any = importlib.import_module("transformers")
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, train_tokenizer: TrainTokenizer) -> Path:
    return train_tokenizer(request.param)


@pytest.fixture(scope="module")
def ours(folder: Path) -> HFTokenizer:
    return HFTokenizer(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return load_theirs(folder)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_tokens_are_those_of_transformers(ours: HFTokenizer, theirs: Any, text: str) -> None:
    for add in (True, False):
        expected = theirs(text, add_special_tokens=add)["input_ids"]
        assert ours.encode(text, add_special=add, parse_special=True) == expected
        expected = theirs(text, add_special_tokens=add, split_special_tokens=True)["input_ids"]
        assert ours.encode(text, add_special=add, parse_special=False) == expected


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_the_bytes_of_tokens_are_those_of_the_text(ours: HFTokenizer, text: str) -> None:
    """But for the space that some vocabularies put in front, and their own mark for one."""
    tokens = ours.encode(text, add_special=False, parse_special=False)
    spelled = b"".join(ours.token_bytes(token, special=True) for token in tokens).decode()
    space, mark = (ours.encode(sign, add_special=False, parse_special=False) for sign in " ▁")
    text = text.replace("▁", " ") if space == mark else text
    assert spelled in (text, " " + text)


def test_every_token_is_spelled_as_transformers_decodes_it(ours: HFTokenizer, theirs: Any) -> None:
    """But for added tokens, whose letters it takes for bytes where the vocabulary has such."""
    anchor = ours.encode("x", add_special=False, parse_special=False)
    before = theirs.decode(anchor)
    for token in set(range(len(theirs))) - theirs.added_tokens_decoder.keys():
        alone = theirs.decode([*anchor, token], skip_special_tokens=True)
        assert alone.removeprefix(before) == ours.token_bytes(token).decode(errors="replace")


def test_every_byte_can_be_written(ours: HFTokenizer) -> None:
    single = {ours.token_bytes(token) for token in range(ours.vocab_size)}
    assert {bytes([byte]) for byte in range(256)} <= single


def test_a_lone_surrogate_is_replaced(ours: HFTokenizer) -> None:
    asked: dict[str, bool] = {"add_special": False, "parse_special": True}
    assert ours.encode("a\ud800b", **asked) == ours.encode("a?b", **asked)


def test_threads_with_different_wishes(ours: HFTokenizer) -> None:
    text = "<|im_end|></s><|eot_id|> and more of it" * 20
    expected = {
        wish: ours.encode(text, add_special=False, parse_special=wish) for wish in (True, False)
    }
    wrong: list[bool] = []

    def ask(wish: bool) -> None:
        for _ in range(100):
            if ours.encode(text, add_special=False, parse_special=wish) != expected[wish]:
                wrong.append(wish)

    threads = [threading.Thread(target=ask, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"type": "object", "required": ["é"]})),
        Grammar(GrammarKind.REGEX, r"([0-9]{3} )?ünï[a-z]+"),
    ],
    ids=["schema", "regex"],
)
def test_grammars_lead_through_the_vocabulary(ours: HFTokenizer, grammar: Grammar) -> None:
    constraint = GrammarCompiler(ours).compile(grammar)
    random = np.random.default_rng(5)
    written = b""
    while not constraint.complete and len(written) < 200:
        allowed = random.permutation(np.flatnonzero(constraint.mask())).tolist()
        # The longest of some go forward fastest.
        token = max(allowed[:20], key=lambda token: len(ours.token_bytes(token)))
        constraint.consume(token)
        written += ours.token_bytes(token)
    assert constraint.error is None
    assert written.startswith((b'{"', b"\xc3\xbc")) or written[:3].isdigit()


@pytest.fixture
def copy(train_tokenizer: TrainTokenizer, tmp_path: Path) -> Path:
    """A folder of the byte-level kind, to be changed."""
    return shutil.copytree(train_tokenizer("byte_level"), tmp_path / "copy")


def change(folder: Path, file: str, **fields: object) -> Path:
    path = folder / file
    old: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, **fields}))
    return folder


def test_what_a_byte_level_vocabulary_says_of_itself(copy: Path) -> None:
    tokenizer = HFTokenizer(copy)
    assert (tokenizer.bos_text, tokenizer.eos_text, tokenizer.adds_bos) == ("", "<|im_end|>", False)
    assert tokenizer.chat_template is None
    assert tokenizer.find_token("<|im_start|>") is not None
    assert tokenizer.find_token("the") is None
    ends = [token for token in range(tokenizer.vocab_size) if tokenizer.is_eog(token)]
    texts = {tokenizer.token_bytes(token, special=True) for token in ends}
    assert texts == {b"<|im_end|>", b"<|endoftext|>"}
    assert {tokenizer.token_bytes(token) for token in ends} == {b""}
    (tool,) = tokenizer.encode("<tool_call>", add_special=False, parse_special=False)
    assert tokenizer.token_bytes(tool) == b"<tool_call>"
    (accented,) = tokenizer.encode("naïve", add_special=False, parse_special=False)
    assert tokenizer.token_bytes(accented) == "naïve".encode()


@pytest.mark.parametrize("flag", [True, False])
def test_tokenizer_json_alone_decides_what_stands_around_a_text(
    train_tokenizer: TrainTokenizer, copy: Path, flag: bool
) -> None:
    """So does transformers; the flags were for vocabularies in other formats."""
    llama = shutil.copytree(train_tokenizer("llama3"), copy.parent / "llama3")
    for folder, adds_bos in ((copy, False), (llama, True)):
        change(folder, "tokenizer_config.json", add_bos_token=flag, add_eos_token=flag)
        tokenizer = HFTokenizer(folder)
        theirs = load_theirs(folder)
        found = tokenizer.encode("hi", add_special=True, parse_special=True)
        assert found == theirs("hi")["input_ids"]
        assert tokenizer.adds_bos is adds_bos


def test_ends_are_listed_in_several_files(copy: Path) -> None:
    start, the = (
        HFTokenizer(copy).encode(text, add_special=False, parse_special=True)[0]
        for text in ("<|im_start|>", "a")
    )
    change(copy, "generation_config.json", eos_token_id=[start, 10**9, "x"])
    change(copy, "config.json", text_config={"eos_token_id": the})
    tokenizer = HFTokenizer(copy)
    assert tokenizer.is_eog(start)
    assert tokenizer.is_eog(the)
    assert not tokenizer.is_eog(10**9)


def test_without_an_end_no_answer_has_a_form(copy: Path) -> None:
    content = json.loads((copy / "tokenizer.json").read_text())
    added = [token for token in content["added_tokens"] if "end" not in token["content"]]
    change(copy, "tokenizer.json", added_tokens=added)
    change(copy, "tokenizer_config.json", eos_token=None)
    tokenizer = HFTokenizer(copy)
    assert not any(map(tokenizer.is_eog, range(tokenizer.vocab_size)))
    with pytest.raises(RequestRejected, match="no token that ends an answer"):
        GrammarCompiler(tokenizer).compile(Grammar(GrammarKind.REGEX, "[0-9]+"))


def test_rows_beyond_the_tokens_are_silent(copy: Path) -> None:
    plain = HFTokenizer(copy)
    change(copy, "config.json", vocab_size=plain.vocab_size + 64)
    tokenizer = HFTokenizer(copy)
    assert tokenizer.vocab_size == plain.vocab_size + 64
    assert tokenizer.token_bytes(plain.vocab_size + 3, special=True) == b""
    assert not tokenizer.is_eog(plain.vocab_size + 3)
    assert HFTokenizer(copy, plain.vocab_size + 128).vocab_size == plain.vocab_size + 128
    constraint = GrammarCompiler(tokenizer).compile(Grammar(GrammarKind.REGEX, "[0-9]+"))
    assert not constraint.mask()[plain.vocab_size :].any()


def test_tokens_that_the_model_has_no_row_for_are_text(copy: Path) -> None:
    plain = HFTokenizer(copy)
    fewer = HFTokenizer(copy, plain.vocab_size - 2)
    tokens = fewer.encode("<tool_call>", add_special=True, parse_special=True)
    assert max(tokens) < fewer.vocab_size
    assert b"".join(map(fewer.token_bytes, tokens)) == b"<tool_call>"
    with pytest.raises(InvalidModel, match="and the model 100"):
        HFTokenizer(copy, 100)


def test_a_token_that_only_the_settings_know(copy: Path) -> None:
    plain = HFTokenizer(copy)
    token = {"content": "<|new|>", "special": True, "normalized": False}
    listed = {str(plain.vocab_size): token, "0": {"content": "<|endoftext|>", "special": True}}
    change(copy, "tokenizer_config.json", added_tokens_decoder=listed)
    tokenizer = HFTokenizer(copy)
    theirs = load_theirs(copy)
    assert (
        tokenizer.encode("a<|new|>b", add_special=False, parse_special=True)
        == (theirs("a<|new|>b")["input_ids"])
    )
    assert tokenizer.token_bytes(plain.vocab_size) == b""


def test_padding_and_truncation_are_left_over_from_training(copy: Path) -> None:
    tokenizers: Any = importlib.import_module("tokenizers")
    file = str(copy / "tokenizer.json")
    saved = tokenizers.Tokenizer.from_file(file)
    saved.enable_truncation(4)
    saved.enable_padding(length=64)
    saved.save(file)
    tokens = HFTokenizer(copy).encode("one two three " * 5, add_special=True, parse_special=True)
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
def test_chat_templates(copy: Path, template: object, expected: str | None) -> None:
    change(copy, "tokenizer_config.json", chat_template=template)
    assert HFTokenizer(copy).chat_template == expected
    (copy / "chat_template.jinja").write_text("{{ file }}")
    assert HFTokenizer(copy).chat_template == "{{ file }}"


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
def test_a_file_that_is_no_tokenizer(copy: Path, content: str | None, reason: str) -> None:
    (copy / "tokenizer.json").unlink()
    if content is not None:
        (copy / "tokenizer.json").write_text(content)
    with pytest.raises(InvalidModel, match=reason) as caught:
        HFTokenizer(copy)
    assert caught.value.message.isprintable()


def test_a_way_of_spelling_that_is_not_known_is_refused(copy: Path) -> None:
    change(copy, "tokenizer.json", decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        HFTokenizer(copy)
    change(copy, "tokenizer.json", decoder=None)
    with pytest.raises(UnsupportedModel, match="no decoder"):
        HFTokenizer(copy)
