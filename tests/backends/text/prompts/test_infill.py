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

ROOM = 4000
REPOSITORY = InfillMarks(1000, 1001, 1002, 1003, 1004)


class Named(ByteTokenizer):
    """Whose vocabulary has other control tokens."""

    adds_bos = False

    def __init__(self, *names: str, told: dict[Any, int] | None = None) -> None:
        self._names = {name: 1000 + number for number, name in enumerate(names)}
        self._told = told or {}

    def find_token(self, text: str) -> int | None:
        return self._names.get(text)

    @property
    def infill_tokens(self) -> dict[Any, int]:
        return self._told


def spelled(tokens: list[int]) -> str:
    """The tokens as text; control tokens by their names."""
    tokenizer = ByteTokenizer()
    return b"".join(tokenizer.token_bytes(token, special=True) for token in tokens).decode()


def build(infill: Infill, limit: int = ROOM) -> str:
    return spelled(InfillPrompts(ByteTokenizer()).build(infill, limit=limit))


def test_prefix_suffix_middle() -> None:
    text = build(Infill("def f():\n", "\nprint(f())\n", "    ret"))
    assert text == (
        "<|begin|><|fim_prefix|>def f():\n    ret<|fim_suffix|>\nprint(f())\n<|fim_middle|>"
    )


def test_control_tokens_in_code_are_text() -> None:
    tokens = InfillPrompts(ByteTokenizer()).build(Infill("<|fim_middle|>", ""), limit=ROOM)
    assert [token for token in tokens if token >= BOS] == [BOS, PREFIX, SUFFIX, MIDDLE]


class TestFiles:
    def test_they_come_first_each_with_its_name(self) -> None:
        files = [InfillFile("a.py", "A = 1\n"), InfillFile("b.py", "B = 2\n")]
        assert build(Infill("x", "y", files=files)) == (
            "<|begin|><|file_sep|>a.py\nA = 1\n<|file_sep|>b.py\nB = 2\n<|file_sep|>current\n"
            "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>"
        )

    def test_the_least_important_are_left_out(self) -> None:
        files = [InfillFile(f"{name}.py", name * 400) for name in "abcd"]
        text = build(Infill("x", "y", files=files), limit=3000)
        assert [name for name in "abcd" if name * 400 in text] == ["b", "c", "d"]

    def test_one_that_is_too_large_leaves_room_for_others(self) -> None:
        files = [InfillFile("a", "a" * 300), InfillFile("b", "b" * 10**7)]
        text = build(Infill("x", "y", files=files))
        assert "a" * 300 in text
        assert "b" * 300 not in text

    def test_a_name_is_one_line(self) -> None:
        text = build(Infill("x", "y", files=[InfillFile("a\nb", "t"), InfillFile("", "u")]))
        assert "<|file_sep|>a b\nt<|file_sep|>current\nu" in text

    def test_without_a_token_for_files(self) -> None:
        tokenizer = Named("<PRE>", "<SUF>", "<MID>")
        tokens = InfillPrompts(tokenizer).build(
            Infill("x", "y", files=[InfillFile("a.py", "A")]), limit=ROOM
        )
        at = tokens.index(1000)
        assert bytes(tokens[:at]) == b"\n\n--- a.py ---\n\nA\n\n--- current ---\n\n"
        assert tokens[at:] == [1000, ord("x"), 1001, ord("y"), 1002]


class TestCutting:
    @pytest.mark.parametrize("limit", [5, 40, 400, 4000])
    def test_what_is_near_the_gap_is_kept(self, limit: int) -> None:
        before = "".join(f"before {n}\n" for n in range(1000))
        behind = "".join(f"behind {n}\n" for n in range(1000))
        text = build(Infill(before, behind, files=[InfillFile("f", "f" * 99)]), limit=limit)
        prefix, _, rest = text.partition("<|fim_prefix|>")[2].partition("<|fim_suffix|>")
        suffix = rest.removesuffix("<|fim_middle|>")
        assert before.endswith(prefix)
        assert behind.startswith(suffix)
        assert prefix
        assert suffix
        assert len(text) > min(limit, NEAR_TOKENS) // 2
        if limit >= 40:
            assert len(
                InfillPrompts(ByteTokenizer()).build(Infill(before, behind), limit=limit)
            ) <= (limit)

    def test_a_key_stroke_leaves_the_beginning_as_it_was(self) -> None:
        before = "".join(f"line {n}\n" for n in range(1000))
        starts = {
            build(Infill(before + "x" * typed, ""))[: len("<|begin|><|fim_prefix|>") + 500]
            for typed in range(100)
        }
        assert len(starts) <= 2

    def test_texts_of_megabytes_are_not_tokenised_whole(self) -> None:
        sizes: list[int] = []

        class Counting(ByteTokenizer):
            def encode(self, text: str, **options: bool) -> list[int]:
                sizes.append(len(text))
                return super().encode(text, **options)  # type: ignore[arg-type]

        text = "word\n" * 2_000_000
        InfillPrompts(Counting()).build(
            Infill(text, text, files=[InfillFile("f", text)]), limit=ROOM
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
    def test_known_by_name(self, names: tuple[str, ...], marks: InfillMarks) -> None:
        assert find_marks(Named(*names)) == marks

    def test_the_file_has_the_last_word(self) -> None:
        told = {"prefix": 7, "suffix": 8, "middle": 9, "file": 10}
        assert find_marks(Named(told=told)) == InfillMarks(7, 8, 9, file=10)
        known = Named("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", told={"suffix": 5})
        assert find_marks(known) == InfillMarks(1000, 5, 1002)

    def test_half_of_them_is_none(self) -> None:
        assert find_marks(Named("<|fim_prefix|>", "<|fim_suffix|>")) is None
        assert find_marks(Named(told={"prefix": 1, "middle": 2})) is None

    def test_the_suffix_first(self) -> None:
        prompts = InfillPrompts(Named("[PREFIX]", "[SUFFIX]"))
        assert prompts.build(Infill("x", "y"), limit=ROOM) == [1001, ord("y"), 1000, ord("x")]


def test_a_model_without_them_says_so() -> None:
    prompts = PromptBuilder(Named(), None, context=512)
    assert not prompts.infills
    with pytest.raises(RequestRejected, match="does not support infill") as caught:
        prompts.build(GenerateRequest(id="a", infill=Infill("x", "y")))
    assert caught.value.code == "no_infill"
    assert caught.value.hint


@pytest.mark.parametrize("most", [None, 0, 10, 10**6])
def test_there_is_room_for_an_answer(most: int | None) -> None:
    prompts = PromptBuilder(ByteTokenizer(), None, context=512)
    infill = Infill("x" * 9999, "y" * 9999)
    request = GenerateRequest(id="a", infill=infill, max_tokens=most, max_context=300)
    prompt = prompts.build(request)
    assert 200 <= len(prompt.token_ids) <= 300 - min(75, most or 1)
    assert FILE not in prompt.token_ids


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("engine", ["llama.cpp", "cuda"])
async def test_a_real_model_fills_a_gap(fetch_model: FetchModel, engine: str) -> None:
    path = fetch_model("qwen2.5-coder:0.5b")
    backend = LocalBackend(
        LoadSpec(engine=engine, path=str(path), context=1024, slots=2, device="cpu")
    )
    assert (await backend.start()).infills
    try:
        shapes = InfillFile("shapes.py", "# Shapes.\n" * 40)
        before = "def add(first, second):\n"
        behind = "\n\n\nprint(add(1, 2))\n"
        filled, cached = await fill(backend, Infill(before, behind, "    return first", [shapes]))
        assert filled.split("\n")[0].strip() == "+ second"
        assert cached == 0
        # One key stroke later only what stands around the gap is computed anew.
        filled, cached = await fill(backend, Infill(before, behind, "    return first +", [shapes]))
        assert filled.split("\n")[0].strip() == "second"
        assert cached > 120
        # What ends a file is no text, whoever writes it.
        filled, _ = await fill(backend, Infill("x = 1\n", ""), most=200)
        assert "<|" not in filled
    finally:
        await backend.stop()


async def fill(backend: LocalBackend, infill: Infill, most: int = 12) -> tuple[str, int]:
    """What the model writes, and how many tokens of the prompt were computed before."""
    text, cached = "", -1
    sampling = SamplingParams(temperature=0)
    request = GenerateRequest(id="f", infill=infill, max_tokens=most, sampling=sampling)
    async for event in stream_events(backend, request):
        if isinstance(event, Started):
            cached = event.cached_tokens
        elif isinstance(event, Delta):
            text += event.text
    return text, cached


@pytest.mark.model
def test_tokens_that_end_a_file_end_an_answer(fetch_model: FetchModel) -> None:
    tokenizer = LlamaVocabulary(fetch_model("qwen2.5-coder:0.5b"))
    ends = ("<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<|endoftext|>", "<|im_end|>")
    for text in ends:
        token = tokenizer.find_token(text)
        assert token is not None
        assert tokenizer.is_eog(token), text
    tokenizer.close()
