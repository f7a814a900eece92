"""`SentenceWriter`: an answer that is written out sentence by sentence."""

from __future__ import annotations

from ..text.terminal_safe_text import clean
from .plain_output import PlainOutput

SPEAKER = "Model"


class SentenceWriter:
    """An `AnswerSink` whose output is written once."""

    def __init__(self, output: PlainOutput) -> None:
        self._output = output
        self._is_unfinished = False

    def append(self, text: str) -> None:
        """Write what completes a sentence."""
        if not self._is_unfinished:
            text = text.lstrip()
            if not text:
                return
            self._is_unfinished = True
            self._output.begin_answer(SPEAKER)
        self._output.answer(text)

    def append_reasoning(self, text: str, tokens: int = 0) -> None:
        """Nothing: reasoning is not read out."""

    def annotate(self, note: str) -> None:
        """Nothing: /stats writes the figures."""

    def answered_by(self, model: str) -> None:
        """Say that another machine answers."""
        self._output.line(f"Answered by {clean(model)}, not on this machine.")

    def finish(self, ending: str = "") -> None:
        """End the answer, and say why if it did not end by itself."""
        self._output.end_answer()
        if ending:
            # The square before the words would be read out as "black square".
            words = ending.lstrip("■ ")
            self._output.line(f"{words[:1].upper()}{words[1:]}.")
