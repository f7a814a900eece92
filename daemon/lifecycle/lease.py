"""Leases: the right to use a loaded model for one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingle.backends.base.backend import RequestBackend
    from ingle.backends.base.model_info import ModelInfo
    from ingle.models.metadata.stored_model import StoredModel


@dataclass
class Lease:
    """The right to use a model, which stays loaded until the lease is released.

    `model` and `info` may change until the first event: routing can choose another model, and a
    long prompt can have it loaded with more context, `longest_context` tokens at most (0: not
    more), which takes `reload_seconds`.
    """

    model: StoredModel
    backend: RequestBackend
    info: ModelInfo
    longest_context: int = 0
    reload_seconds: float = 0.0

    @property
    def context(self) -> int:
        """The tokens that a request can have, prompt and answer together."""
        return max(self.info.context, self.longest_context)
