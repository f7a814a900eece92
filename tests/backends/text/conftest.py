"""Chat templates closed after each test, and small trained tokenizers of several kinds."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from ingle.backends.text.templates.chat_template import ChatTemplate
from ingle.backends.text.templates.template_renderer import RenderLimits

MakeTemplate = Callable[..., ChatTemplate]

_SDIST = "llama-cpp-python==0.3.36"
_TESTS = "test-chat.cpp"
_FOLDER = "vendor/llama.cpp/models/templates/"


@pytest.fixture(scope="session")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of llama.cpp's templates and tests, downloaded once from the configured package
    index."""
    folder = request.config.cache.mkdir("llama-cpp-templates")  # pyright: ignore[reportOptionalMemberAccess]
    if not (folder / _TESTS).exists():
        download = tmp_path_factory.mktemp("sdist")
        options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(download)]
        subprocess.run(
            [sys.executable, "-P", "-m", "pip", "download", *options, _SDIST],
            check=True,
            cwd=download,
        )
        with tarfile.open(next(download.glob("*.tar.gz"))) as archive:
            for member in archive:
                wanted = _FOLDER in member.name and member.name.endswith(".jinja")
                wanted = wanted or member.name.endswith(f"/{_TESTS}")
                content = archive.extractfile(member) if wanted else None
                if content is not None:
                    (folder / Path(member.name).name).write_bytes(content.read())
    return folder


@pytest.fixture
def make_template() -> Iterator[MakeTemplate]:
    """Create templates with a time limit that even a busy machine does not reach, unless
    overridden."""
    with ExitStack() as stack:

        def make(
            source: str,
            *,
            bos_token: str = "<s>",
            eos_token: str = "</s>",
            limits: RenderLimits | None = None,
        ) -> ChatTemplate:
            limits = limits or RenderLimits(seconds=30)
            template = ChatTemplate(source, bos_token=bos_token, eos_token=eos_token, limits=limits)
            return stack.enter_context(closing(template))

        yield make


TrainTokenizer = Callable[[str], Path]
Trained = tuple[Tokenizer, dict[str, object]]

_DOCUMENTS = Path(__file__).parents[3] / "docs"
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MARK = "▁"
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_SENTENCE_PIECES = ["<unk>", "<s>", "</s>"]


@pytest.fixture(scope="session")
def train_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TrainTokenizer:
    """Train a small tokenizer of the given kind on this project's documentation; returns its
    folder."""
    trained_folders: dict[str, Path] = {}

    def train(kind: str) -> Path:
        if kind not in trained_folders:
            folder = trained_folders[kind] = tmp_path_factory.mktemp(kind)
            corpus = [path.read_text() for path in sorted(_DOCUMENTS.glob("*.md"))]
            tokenizer, settings = _KINDS[kind](corpus)
            tokenizer.save(str(folder / "tokenizer.json"))
            settings = {"tokenizer_class": "PreTrainedTokenizerFast", **settings}
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return trained_folders[kind]

    return train


def _byte_level(corpus: list[str]) -> Trained:
    """Like Qwen and SmolLM2: chat and tool tokens, no BOS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    _train_bytes(tokenizer, corpus, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    added = [AddedToken("<tool_call>", normalized=False), AddedToken("naïve")]
    tokenizer.add_tokens(added)  # pyright: ignore[reportUnknownMemberType]
    return tokenizer, {"bos_token": None, "eos_token": "<|im_end|>"}


def _llama3(corpus: list[str]) -> Trained:
    """Like Llama 3: its own pre-tokenization pattern, BOS added by the post-processor."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_LLAMA3_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    bos = "<|begin_of_text|>"
    _train_bytes(tokenizer, corpus, [bos, "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.post_processor = _template(tokenizer, bos)
    return tokenizer, {
        "bos_token": {"__type": "AddedToken", "content": bos, "special": True},
        "eos_token": "<|end_of_text|>",
    }


def _sentencepiece_bpe(corpus: list[str]) -> Trained:
    """Like Llama 2 and Mistral: marked spaces, byte fallback for rare characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(_MARK), normalizers.Replace(" ", _MARK)]
    )
    tokenizer.decoder = _marked_decoder()
    # The pre-tokenizer only limits training; such a vocabulary has no pre-tokenization at run time.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(_MARK, "merged_with_next")
    special = [*_SENTENCE_PIECES, *_BYTES]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    fields = json.loads(tokenizer.to_str())
    fields["pre_tokenizer"] = None
    fields["added_tokens"] = fields["added_tokens"][: len(_SENTENCE_PIECES)]
    tokenizer = Tokenizer.from_str(json.dumps(fields))
    tokenizer.post_processor = _template(tokenizer, "<s>")
    return tokenizer, {**_ROLES}


def _unigram(corpus: list[str]) -> Trained:
    """Like T5 and its successors: a unigram model with a mark before every word."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace(" ", _MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_MARK, prepend_scheme="first", split=True)
    tokenizer.decoder = _marked_decoder()
    special = [*_SENTENCE_PIECES, *_BYTES]
    trainer = trainers.UnigramTrainer(
        vocab_size=900, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    fields = json.loads(tokenizer.to_str())
    fields["model"]["byte_fallback"] = True
    fields["added_tokens"] = fields["added_tokens"][: len(_SENTENCE_PIECES)]
    tokenizer = Tokenizer.from_str(json.dumps(fields))
    tokenizer.post_processor = _template(tokenizer, "<s>")
    return tokenizer, {**_ROLES}


_ROLES: dict[str, object] = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_KINDS: dict[str, Callable[[list[str]], Trained]] = {
    "byte_level": _byte_level,
    "llama3": _llama3,
    "sentencepiece_bpe": _sentencepiece_bpe,
    "unigram": _unigram,
}


def _train_bytes(tokenizer: Tokenizer, corpus: list[str], special: list[str]) -> None:
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)


def _template(tokenizer: Tokenizer, bos: str) -> processors.TemplateProcessing:
    number = tokenizer.token_to_id(bos)
    assert number is not None
    return processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, number)]
    )


def _marked_decoder() -> decoders.Decoder:
    steps = [decoders.Replace(_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
