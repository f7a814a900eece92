"""Log-probabilities of tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..base.events import TokenLogprobs

# OpenAI's word for a token that could not come; JSON has no infinity.
LEAST = -9999.0


def token_logprobs(logits: NDArray[np.float32], token_id: int, count: int) -> TokenLogprobs:
    """A token's log-probability by the raw `logits` (vocab_size,), and the `count` likeliest."""
    largest = logits.max()
    total = float(largest) + float(np.log(np.exp(logits - largest).sum(dtype=np.float64)))
    top: list[tuple[int, float]] = []
    if count:
        count = min(count, len(logits))
        ids = np.argpartition(logits, -count)[-count:]
        ids = ids[np.argsort(-logits[ids], kind="stable")]
        top = [(int(i), max(float(logits[i]) - total, LEAST)) for i in ids]
    return TokenLogprobs(token_id, max(float(logits[token_id]) - total, LEAST), top)
