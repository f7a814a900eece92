"""Stands in for faster-whisper: the prompt of a request is a script."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class WhisperModel:
    """Recognises two segments in any sound."""

    supported_languages = ("de", "en")

    def __init__(self, folder: str, **_: Any) -> None:
        assert Path(folder).is_dir()

    def transcribe(
        self, audio: Any, *, language: str | None, initial_prompt: str | None, **options: Any
    ) -> tuple[Iterator[SimpleNamespace], SimpleNamespace]:
        if initial_prompt == "die at once":
            os._exit(1)
        info = SimpleNamespace(language=language or "en", duration=audio.size / 16000)
        return self._segments(initial_prompt, options), info

    def _segments(self, script: str | None, options: dict[str, Any]) -> Iterator[SimpleNamespace]:
        for number, text in enumerate((" One -->", f" {options['task']}."), 1):
            words = [SimpleNamespace(word=text, start=1.0, end=2.0)]
            yield SimpleNamespace(
                id=number,
                seek=0,
                start=number * 3661.5,
                end=number * 3661.5 + 1.25,
                text=text,
                tokens=[number],
                temperature=0.0,
                avg_logprob=-0.5,
                compression_ratio=1.0,
                no_speech_prob=0.0,
                words=words if options["word_timestamps"] else None,
            )
            if script == "die":
                os._exit(1)
            if script == "too large":
                raise RuntimeError("mkl_malloc: failed to allocate memory")
            if script == "read a file":
                Path("/etc/hostname").read_text()
