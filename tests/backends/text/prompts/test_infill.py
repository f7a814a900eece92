"""Infill (FIM) prompts: order, files, truncation and vocabularies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.conversation import Infill, InfillFile
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.events import Delta, Started
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.llama_cpp.llama_tokenizer import LlamaVocabulary
from ingle.backends.testing.byte_tokenizer import BOS, FILE, MIDDLE, PREFIX, SUFFIX, ByteTokenizer
from ingle.backends.text.prompts.infill import NEAR_TOKENS, InfillMarks, InfillPrompts, find_marks
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from tests.harness.local_backend import LocalBackend

FetchModel = Callable[[str], Path]

LIMIT = 4000
REPOSITORY = InfillMarks(1000, 1001, 1002, 1003, 1004)


class NamedTokenTokenizer(ByteTokenizer):
    """A tokenizer with other control tokens."""

    adds_bos = False

    def __init__(self, *names: str, infill_metadata: dict[Any, int] | None = None) -> None:
        self._names = {name: 1000 + number for number, name in enumerate(names)}
        self._infill_metadata = infill_metadata or {}

    def find_token(self, text: str) -> int | None:
        return self._names.get(text)

    @property
    def infill_tokens(self) -> dict[Any, int]:
        return self._infill_metadata


def token_text(tokens: list[int]) -> str:
    """The tokens as text, with control tokens by name."""
    tokenizer = ByteTokenizer()
    return b"".join(tokenizer.token_bytes(token, special=True) for token in tokens).decode()


def build(infill: Infill, limit: int = LIMIT) -> str:
    return token_text(InfillPrompts(ByteTokenizer()).build(infill, limit=limit))


def test_prefix_suffix_middle_order() -> None:
    text = build(Infill("def f():\n", "\nprint(f())\n", "    ret"))
    assert text == (
        "<|begin|><|fim_prefix|>def f():\n    ret<|fim_suffix|>\nprint(f())\n<|fim_middle|>"
    )


def test_control_tokens_in_code_are_encoded_as_text() -> None:
    tokens = InfillPrompts(ByteTokenizer()).build(Infill("<|fim_middle|>", ""), limit=LIMIT)
    assert [token for token in tokens if token >= BOS] == [BOS, PREFIX, SUFFIX, MIDDLE]


class TestFiles:
    def test_files_precede_the_code_with_their_names(self) -> None:
        files = [InfillFile("a.py", "A = 1\n"), InfillFile("b.py", "B = 2\n")]
        assert build(Infill("x", "y", files=files)) == (
            "<|begin|><|file_sep|>a.py\nA = 1\n<|file_sep|>b.py\nB = 2\n<|file_sep|>current\n"
            "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>"
        )

    def test_least_important_files_are_dropped(self) -> None:
        files = [InfillFile(f"{name}.py", name * 400) for name in "abcd"]
        text = build(Infill("x", "y", files=files), limit=3000)
        assert [name for name in "abcd" if name * 400 in text] == ["b", "c", "d"]

    def test_too_large_file_is_dropped_and_others_kept(self) -> None:
        files = [InfillFile("a", "a" * 300), InfillFile("b", "b" * 10**7)]
        text = build(Infill("x", "y", files=files))
        assert "a" * 300 in text
        assert "b" * 300 not in text

    def test_file_names_are_reduced_to_one_line(self) -> None:
        text = build(Infill("x", "y", files=[InfillFile("a\nb", "t"), InfillFile("", "u")]))
        assert "<|file_sep|>a b\nt<|file_sep|>current\nu" in text

    def test_files_without_a_file_separator_token(self) -> None:
        tokenizer = NamedTokenTokenizer("<PRE>", "<SUF>", "<MID>")
        tokens = InfillPrompts(tokenizer).build(
            Infill("x", "y", files=[InfillFile("a.py", "A")]), limit=LIMIT
        )
        start = tokens.index(1000)
        assert bytes(tokens[:start]) == b"\n\n--- a.py ---\n\nA\n\n--- current ---\n\n"
        assert tokens[start:] == [1000, ord("x"), 1001, ord("y"), 1002]


class TestCutting:
    @pytest.mark.parametrize("limit", [5, 40, 400, 4000])
    def test_text_near_the_cursor_is_kept(self, limit: int) -> None:
        before = "".join(f"before {n}\n" for n in range(1000))
        after = "".join(f"behind {n}\n" for n in range(1000))
        text = build(Infill(before, after, files=[InfillFile("f", "f" * 99)]), limit=limit)
        prefix, _, rest = text.partition("<|fim_prefix|>")[2].partition("<|fim_suffix|>")
        suffix = rest.removesuffix("<|fim_middle|>")
        assert before.endswith(prefix)
        assert after.startswith(suffix)
        assert prefix
        assert suffix
        assert len(text) > min(limit, NEAR_TOKENS) // 2
        if limit >= 40:
            assert len(
                InfillPrompts(ByteTokenizer()).build(Infill(before, after), limit=limit)
            ) <= (limit)

    def test_prompt_start_is_stable_while_typing(self) -> None:
        before = "".join(f"line {n}\n" for n in range(1000))
        starts = {
            build(Infill(before + "x" * typed, ""))[: len("<|begin|><|fim_prefix|>") + 500]
            for typed in range(100)
        }
        assert len(starts) <= 2

    def test_large_texts_are_not_tokenized_completely(self) -> None:
        sizes: list[int] = []

        class Counting(ByteTokenizer):
            def encode(self, text: str, **options: bool) -> list[int]:
                sizes.append(len(text))
                return super().encode(text, **options)  # type: ignore[arg-type]

        text = "word\n" * 2_000_000
        InfillPrompts(Counting()).build(
            Infill(text, text, files=[InfillFile("f", text)]), limit=LIMIT
        )
        assert max(sizes) < 70_000


class TestVocabularies:
    @pytest.mark.parametrize(
        ("names", "marks"),
        [
            (
                ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"),
                REPOSITORY,
            ),
            (("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"), InfillMarks(1000, 1001, 1002)),
            (("▁<PRE>", "▁<SUF>", "▁<MID>"), InfillMarks(1000, 1001, 1002)),
            (("[PREFIX]", "[SUFFIX]"), InfillMarks(1000, 1001, suffix_first=True)),
            (
                ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
                InfillMarks(1000, 1001, 1002, suffix_first=True),
            ),
        ],
    )
    def test_infill_tokens_are_found_by_name(
        self, names: tuple[str, ...], marks: InfillMarks
    ) -> None:
        assert find_marks(NamedTokenTokenizer(*names)) == marks

    def test_infill_metadata_overrides_token_names(self) -> None:
        infill_metadata = {"prefix": 7, "suffix": 8, "middle": 9, "file": 10}
        assert find_marks(NamedTokenTokenizer(infill_metadata=infill_metadata)) == InfillMarks(
            7, 8, 9, file=10
        )
        known = NamedTokenTokenizer(
            "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", infill_metadata={"suffix": 5}
        )
        assert find_marks(known) == InfillMarks(1000, 5, 1002)

    def test_incomplete_infill_tokens_are_ignored(self) -> None:
        assert find_marks(NamedTokenTokenizer("<|fim_prefix|>", "<|fim_suffix|>")) is None
        assert find_marks(NamedTokenTokenizer(infill_metadata={"prefix": 1, "middle": 2})) is None

    def test_suffix_first_order(self) -> None:
        prompts = InfillPrompts(NamedTokenTokenizer("[PREFIX]", "[SUFFIX]"))
        assert prompts.build(Infill("x", "y"), limit=LIMIT) == [1001, ord("y"), 1000, ord("x")]


def test_model_without_infill_tokens_rejects_infill() -> None:
    prompts = PromptBuilder(NamedTokenTokenizer(), None, context=512)
    assert not prompts.infills
    with pytest.raises(RequestRejected, match="does not support infill") as caught:
        prompts.build(GenerateRequest(id="a", infill=Infill("x", "y")))
    assert caught.value.code == "no_infill"
    assert caught.value.hint


@pytest.mark.parametrize("max_tokens", [None, 0, 10, 10**6])
def test_infill_prompt_leaves_room_for_the_answer(max_tokens: int | None) -> None:
    prompts = PromptBuilder(ByteTokenizer(), None, context=512)
    infill = Infill("x" * 9999, "y" * 9999)
    request = GenerateRequest(id="a", infill=infill, max_tokens=max_tokens, max_context=300)
    prompt = prompts.build(request)
    assert 200 <= len(prompt.token_ids) <= 300 - min(75, max_tokens or 1)
    assert FILE not in prompt.token_ids


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("engine", ["llama.cpp", "cuda"])
async def test_infill_with_a_real_model(fetch_model: FetchModel, engine: str) -> None:
    path = fetch_model("qwen2.5-coder:0.5b")
    backend = LocalBackend(
        LoadSpec(engine=engine, path=str(path), context=1024, slots=2, device="cpu")
    )
    assert (await backend.start()).infills
    try:
        shapes = InfillFile("shapes.py", "# Shapes.\n" * 40)
        before = "def add(first, second):\n"
        after = "\n\n\nprint(add(1, 2))\n"
        filled, cached = await fill(backend, Infill(before, after, "    return first", [shapes]))
        assert filled.split("\n")[0].strip() == "+ second"
        assert cached == 0
        # One keystroke later, only the tokens around the cursor are computed again.
        filled, cached = await fill(backend, Infill(before, after, "    return first +", [shapes]))
        assert filled.split("\n")[0].strip() == "second"
        assert cached > 120
        # End-of-file tokens are not part of the text.
        filled, _ = await fill(backend, Infill("x = 1\n", ""), max_tokens=200)
        assert "<|" not in filled
    finally:
        await backend.stop()


async def fill(backend: LocalBackend, infill: Infill, max_tokens: int = 12) -> tuple[str, int]:
    """The generated text and the number of cached prompt tokens."""
    text, cached = "", -1
    sampling = SamplingParams(temperature=0)
    request = GenerateRequest(id="f", infill=infill, max_tokens=max_tokens, sampling=sampling)
    async for event in stream_events(backend, request):
        if isinstance(event, Started):
            cached = event.cached_tokens
        elif isinstance(event, Delta):
            text += event.text
    return text, cached


@pytest.mark.model
def test_file_separator_tokens_end_the_generation(fetch_model: FetchModel) -> None:
    tokenizer = LlamaVocabulary(fetch_model("qwen2.5-coder:0.5b"))
    ends = ("<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<|endoftext|>", "<|im_end|>")
    for text in ends:
        token = tokenizer.find_token(text)
        assert token is not None
        assert tokenizer.is_eog(token), text
    tokenizer.close()
