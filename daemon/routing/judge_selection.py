"""Which of the loaded models is asked whether a text is private."""

from __future__ import annotations

from ..lifecycle.model_manager import ModelManager
from .inspection.privacy_judge import Generate

LEAST_PARAMETERS = 1_000_000_000
"""Smaller models call everything public (docs/privacy.md has the figures)."""


def loaded_judge(manager: ModelManager) -> Generate | None:
    """The largest model that is loaded and chats; None where there is none large enough."""
    best, most = None, LEAST_PARAMETERS - 1
    for model in manager.models():
        run = manager.find(model)
        if run is None or run.backend is None or run.info is None or not run.accepts:
            continue
        if run.info.has_chat_template and run.info.parameters > most:
            best, most = run.backend, run.info.parameters
    return None if best is None else best.generate
