"""Measures the negative log-likelihood of right answers after a view."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from compaction_cases.chat_maker import Turn
from compaction_cases.probing import Messages
from ingle.backends.base.conversation import ChatMessage
from ingle.backends.text.templates.chat_template import ChatTemplate

BATCH = 512


class Surprise:
    """One model in this process, since daemons do not score prompts; common beginnings are kept."""

    def __init__(self, model: Path, *, context: int, threads: int) -> None:
        import llama_cpp

        self._lib: Any = llama_cpp
        lib = self._lib
        lib.llama_log_set(_QUIET, None)
        self._model = lib.llama_model_load_from_file(
            str(model).encode(), lib.llama_model_default_params()
        )
        parameters = lib.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch = context, BATCH
        parameters.n_threads = parameters.n_threads_batch = threads
        self._context = lib.llama_init_from_model(self._model, parameters)
        self._vocab = lib.llama_model_get_vocab(self._model)
        self._size: int = lib.llama_vocab_n_tokens(self._vocab)
        self._batch = lib.llama_batch_init(BATCH, 0, 1)
        self._held: list[int] = []
        source = lib.llama_model_chat_template(self._model, None).decode()
        self._template = ChatTemplate(source, bos_token="", eos_token="")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._template.close()
        self._lib.llama_batch_free(self._batch)
        self._lib.llama_free(self._context)
        self._lib.llama_model_free(self._model)

    def of(self, view: Messages, turns: Sequence[Turn]) -> float:
        """Return nats per token of the answers, each after its question and the view."""
        total, count = 0.0, 0
        for turn in turns:
            asked = [*view, {"role": "user", "content": turn.prompt}]
            prompt = self._template.render([ChatMessage(m["role"], m["content"]) for m in asked])
            before = self._tokens(prompt)
            answer = self._tokens(turn.answer)
            logits = self._evaluate([*before, *answer], len(before) - 1)
            for token, row in zip(answer, logits, strict=False):
                top = float(row.max())
                total += top + math.log(float(np.exp(row - top).sum())) - float(row[token])
            count += len(answer)
        return total / count

    def _tokens(self, text: str) -> list[int]:
        data = text.encode()
        room = (self._lib.llama_token * (len(data) + 8))()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), room, len(room), False, True)
        return list(room[:count])

    def _evaluate(self, tokens: list[int], first: int) -> list[np.ndarray[Any, Any]]:
        """Return the logits of every token from position `first` on."""
        lib, common = self._lib, 0
        while common < min(first, len(self._held)) and self._held[common] == tokens[common]:
            common += 1
        lib.llama_memory_seq_rm(lib.llama_get_memory(self._context), 0, common, -1)
        rows: list[np.ndarray[Any, Any]] = []
        for start in range(common, len(tokens), BATCH):
            part = tokens[start : start + BATCH]
            wanted = self._fill(part, start, first)
            if lib.llama_decode(self._context, self._batch) != 0:
                raise RuntimeError("the context is too small")
            for index in wanted:
                logits = lib.llama_get_logits_ith(self._context, index)
                rows.append(np.ctypeslib.as_array(logits, shape=(self._size,)).astype(np.float64))
        self._held = tokens
        return rows

    def _fill(self, part: list[int], start: int, first: int) -> list[int]:
        """Add tokens to the batch; return the positions whose logits are needed."""
        batch = self._batch
        batch.n_tokens = len(part)
        wanted = [index for index in range(len(part)) if start + index >= first]
        for index, token in enumerate(part):
            batch.token[index] = token
            batch.pos[index] = start + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = int(start + index >= first)
        return wanted


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _QUIET(level: int, text: bytes, data: int) -> None:  # noqa: N802, as a constant
    """Discard the library's log."""
