"""Failures as entries of the transcript: what happened, and the next key to press."""

from __future__ import annotations

from ingle.daemon.client.client_errors import ClientError

from ..transcript.entries.program_entries import NoticeEntry

NEXT_KEYS = {
    "daemon_unreachable": "F5 starts it again and asks once more; your prompt is kept",
    "context_length_exceeded": "ctrl+n starts a new chat · ctrl+o picks a model with more room",
    "model_not_found": "ctrl+o picks another model",
    "wrong_task": "ctrl+o picks another model",
    "load_failed": "F5 tries again · ctrl+o picks another model",
    "out_of_memory": "F5 tries again · ctrl+o picks another model",
}


def answer_failed(error: ClientError) -> NoticeEntry:
    """An answer did not come, or broke off."""
    keys = NEXT_KEYS.get(error.code, "F5 asks again; your prompt is kept")
    return failure(error.message, error.hint, keys)


def failure(message: str, hint: str | None, keys: str) -> NoticeEntry:
    """The sentence, the hint, and the keys that lead on."""
    return NoticeEntry(message, "\n".join(part for part in (hint, keys) if part), "error")
