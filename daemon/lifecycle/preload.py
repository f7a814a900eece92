"""Loads the configured models when the daemon starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..error_status import describe

if TYPE_CHECKING:
    from .model_manager import ModelManager

log = logging.getLogger("ingle.daemon")


async def preload(manager: ModelManager, names: Sequence[str]) -> None:
    """Load models one after another; a failure is logged and does not stop the others."""
    for name in names:
        try:
            await manager.load(name)
        except Exception as error:  # the daemon is useful without it
            described = describe(error)
            hint = f" {described.hint}" if described.hint else ""
            log.warning("%s could not be preloaded: %s%s", name, described.message, hint)
