"""Compares the answers of a smaller and a fuller model to the same prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from ingle.models.gguf.gguf_header import read_header
from ingle.models.gguf.gguf_support import check_supported
from ingle.models.model_task import ModelTask, task_of
from ingle.models.safetensors.model_folder import read_folder

from ...base.conversation import ChatMessage
from ...base.errors import BackendError, LoadFailed, OutOfMemory
from ...cuda.model_tokenizer import open_tokenizer
from ...engine.speculation.draft_pairing import vocabulary_difference
from ...text.templates.chat_template import ChatTemplate, default_template
from ...text.tokenization.tokenizer import Tokenizer, encode_prompt
from ..verification.logit_comparison import Comparison, Logits, NotNumbers
from ..verification.scorer import Scorer, chunk_size
from .messages import (
    AnswerDivergence,
    EvaluationProgress,
    EvaluationReport,
    EvaluationSpec,
    PromptResult,
)
from .verdict import judge

Send = Callable[[EvaluationProgress], None]

_LONGEST_PROMPT = 4096
_LONGEST_TEXT = 1 << 20
"""Most tokens of context for a model whose file does not state it."""
_SHOWN = 40
"""Tokens shown of either answer after the point where they diverge."""


def evaluate(spec: EvaluationSpec, send: Send) -> EvaluationReport:
    """Run the evaluation; raises `BackendError` or `ModelError`."""
    with ExitStack() as resources:
        path, fuller_path = Path(spec.path), Path(spec.fuller_path)
        facts, fuller_facts = _read(path), _read(fuller_path)
        _check_memory(facts.bytes + fuller_facts.bytes)
        trained = min(facts.context, fuller_facts.context)
        tokenizer = open_tokenizer(fuller_path, fuller_facts.rows)
        different = vocabulary_difference(open_tokenizer(path, facts.rows), tokenizer)
        if different is not None:
            raise LoadFailed(
                f"{path.name} cannot be compared with {fuller_path.name}: {different}.",
                hint="Compare editions of the same model.",
            )
        behind = spec.tokens + _SHOWN + 2
        prompts = _encode(spec, tokenizer, min(_LONGEST_PROMPT, trained - behind))
        context = max(map(len, prompts)) + behind
        chunk = chunk_size(tokenizer.vocab_size)
        send(EvaluationProgress(loading=fuller_path.name))
        fuller = resources.enter_context(closing(_open(fuller_path, context, chunk)))
        send(EvaluationProgress(loading=path.name))
        smaller = resources.enter_context(closing(_open(path, context, chunk)))
        pair = _Pair(smaller, fuller, tokenizer, chunk, spec.tokens)
        results: list[PromptResult] = []
        for number, (tokens, messages) in enumerate(zip(prompts, spec.prompts, strict=True)):
            send(EvaluationProgress(done=number, total=len(prompts)))
            results.append(pair.compare(tokens, messages[-1].content))
        return judge(results, pair.certainties, pair.seconds, pair.fuller_seconds)


class _Pair:
    """Both models, loaded."""

    def __init__(
        self, smaller: Scorer, fuller: Scorer, tokenizer: Tokenizer, chunk: int, limit: int
    ) -> None:
        self._smaller, self._fuller = Answerer(smaller, chunk), Answerer(fuller, chunk)
        self._tokenizer = tokenizer
        self._limit = limit
        self.certainties: list[float] = []
        """For each position, the probability that two samples of the fuller model are equal."""
        self.seconds = 0.0
        self.fuller_seconds = 0.0

    def compare(self, prompt: Sequence[int], text: str) -> PromptResult:
        """Generate with the fuller model, score with the smaller one, and continue it at the
        divergence.
        """
        began = time.monotonic()
        answer, expected = self._fuller.answer(prompt, self._tokenizer, self._limit)
        turned = time.monotonic()
        rows = self._smaller.read([*prompt, *answer], len(prompt) - 1)[: len(expected)]
        targets = expected.argmax(axis=1)
        width = min(rows.shape[1], expected.shape[1])  # vocabularies are often padded
        comparison = Comparison()
        try:
            comparison.add(rows[:, :width], expected[:, :width], targets)
        except NotNumbers as error:
            raise BackendError(
                "One of the models computes no numbers.",
                hint="Its weights may be damaged: pull or quantise it again.",
                code="not_numbers",
            ) from error
        statistics = comparison.statistics()
        parting = None
        if (first := statistics.first_divergence) is not None:
            parting = self._divergence(prompt, answer, first.position, first.token, expected)
        self.fuller_seconds += turned - began
        self.seconds += time.monotonic() - turned
        self.certainties += [float(np.square(_softmax(row)).sum()) for row in expected]
        return PromptResult(
            prompt=text, answer=self._text(answer), statistics=statistics, parting=parting
        )

    def _divergence(
        self, prompt: Sequence[int], answer: Sequence[int], at: int, token: int, expected: Logits
    ) -> AnswerDivergence:
        p = _softmax(expected[at])
        own: list[int] = []
        if not self._tokenizer.is_eog(token):
            start = [*prompt, *answer[:at], token]
            more, _ = self._smaller.answer(start, self._tokenizer, _SHOWN)
            own = [token, *more]
        return AnswerDivergence(
            shared=at,
            likely=float(p[token]),
            likeliest=float(p.max()),
            common_text=self._text(answer[:at]),
            text=self._text(own),
            fuller_text=self._text(answer[at : at + _SHOWN]),
        )

    def _text(self, tokens: Sequence[int]) -> str:
        raw = b"".join(self._tokenizer.token_bytes(token) for token in tokens)
        return raw.decode("utf-8", "replace")


def _encode(spec: EvaluationSpec, tokenizer: Tokenizer, most: int) -> list[list[int]]:
    source = spec.chat_template or tokenizer.chat_template or default_template(tokenizer)
    template = None
    if source is not None:
        bos, eos = tokenizer.bos_text, tokenizer.eos_text
        template = ChatTemplate(source, bos_token=bos, eos_token=eos)
    try:
        prompts = [_prompt(messages, template, tokenizer) for messages in spec.prompts]
    finally:
        if template is not None:
            template.close()
    for number, prompt in enumerate(prompts, start=1):
        if len(prompt) > most:
            raise LoadFailed(
                f"Prompt {number} of {len(prompts)} has {len(prompt)} tokens with all that comes "
                f"before it, and {max(0, most)} are read at most for answers of {spec.tokens}.",
                hint="Leave it out, cut it, or ask for shorter answers (--tokens).",
            )
    return prompts


def _prompt(
    messages: Sequence[ChatMessage], template: ChatTemplate | None, tokenizer: Tokenizer
) -> list[int]:
    if template is None:  # a base model, which only continues text
        return tokenizer.encode(messages[-1].content, add_special=True, parse_special=False)
    return encode_prompt(tokenizer, template.render(messages))


class _ModelFacts(NamedTuple):
    """The trained context in tokens, the rows of the vocabulary, and the bytes of the weights."""

    context: int
    rows: int
    bytes: int


def _read(path: Path) -> _ModelFacts:
    """Return a model's facts; raises `ModelError`, and `LoadFailed` if it does not generate."""
    if path.is_dir():
        folder = read_folder(path)
        return _ModelFacts(folder.config.context, folder.config.vocab_size, folder.tensor_bytes)
    header = read_header(path)
    if task_of(header) is not ModelTask.GENERATE:
        raise LoadFailed(
            f"{path.name} writes no text, and so has no answers to compare.",
            hint="Choose a model that chats or completes texts.",
        )
    check_supported(header)
    return _ModelFacts(header.context or _LONGEST_TEXT, header.vocab_size, header.tensor_bytes)


def _open(path: Path, context: int, chunk: int) -> Scorer:
    if path.is_dir():
        from ..verification.engine_scorer import EngineScorer  # imports PyTorch

        return EngineScorer(path, context=context, chunk=chunk)
    from ..verification.llama_scorer import LlamaScorer

    return LlamaScorer(path, context=context, chunk=chunk)


def _check_memory(needed: int) -> None:
    """Raise `OutOfMemory` unless both models fit into memory at once."""
    total = psutil.virtual_memory().total
    if needed > total:
        raise OutOfMemory(
            f"Both models together take {needed / 1e9:.1f} GB, and this machine has "
            f"{total / 1e9:.1f}.",
            hint="Compare with a Q8_0 in place of the full one.",
        )


def _softmax(row: Logits) -> NDArray[np.float64]:
    shifted = np.exp(row.astype(np.float64) - row.max())
    return shifted / shifted.sum()


class Answerer:
    """Prefills in chunks and decodes greedily; one conversation at a time."""

    def __init__(self, scorer: Scorer, chunk: int) -> None:
        self._scorer = scorer
        self._chunk = chunk

    def read(self, tokens: Sequence[int], start: int) -> Logits:
        """Prefill all tokens and return the logits after each token from `start` on."""
        self._scorer.begin()
        for at in range(0, start, self._chunk):
            self._scorer.read(tokens, at, min(at + self._chunk, start))
        parts = [
            self._scorer.read(tokens, at, min(at + self._chunk, len(tokens))).copy()
            for at in range(start, len(tokens), self._chunk)
        ]
        return np.concatenate(parts)

    def answer(
        self, prompt: Sequence[int], tokenizer: Tokenizer, limit: int
    ) -> tuple[list[int], Logits]:
        """Return the greedy answer of at most `limit` tokens, and the logits at each position.

        The end-of-generation token is not part of it.
        """
        tokens, rows = list(prompt), [self.read(prompt, len(prompt) - 1)[-1]]
        while not tokenizer.is_eog(choice := int(rows[-1].argmax())):
            tokens.append(choice)
            if len(rows) == limit:
                break
            rows.append(self._scorer.read(tokens, len(tokens) - 1, len(tokens))[0].copy())
        return tokens[len(prompt) :], np.stack(rows)
