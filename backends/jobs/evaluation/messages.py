"""What the process that evaluates a model is told, and what it tells."""

from __future__ import annotations

import msgspec

from ...base.conversation import ChatMessage
from ..verification.logit_comparison import Statistics


class EvaluationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Compare the model at `path` with the one at `fuller_path`, which has the same vocabulary.

    Each conversation in `prompts` ends with a user's message, and is answered with at most
    `tokens` tokens. `chat_template` takes the place of the fuller model's own.
    """

    path: str
    fuller_path: str
    prompts: list[list[ChatMessage]]
    tokens: int = 64
    chat_template: str | None = None


class EvaluationProgress(msgspec.Struct, frozen=True, tag="progress"):
    """What is being loaded, or how many of `total` prompts are done."""

    loading: str | None = None
    done: int = 0
    total: int = 0


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where two answers part: after `shared` tokens, each goes on with its own text.

    `likely` is the probability that the fuller model gives to the smaller one's word there, and
    `likeliest` the one it gives to its own: what sampling would have done anyway.
    """

    shared: int
    likely: float
    likeliest: float
    common_text: str
    text: str
    fuller_text: str


class PromptResult(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: the fuller model's greedy answer, read by both; `parting` None for the same."""

    prompt: str
    answer: str
    statistics: Statistics
    parting: Divergence | None


class Interval(msgspec.Struct, frozen=True):
    """A mean, and the bounds within which 95 % of resamplings of the prompts have it."""

    mean: float
    low: float
    high: float


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """What came out of all prompts; divergences in nats.

    `self_agreement` is how often two draws of the fuller model's own, at temperature 1, give the
    same next token: the noise that sampling brings with it.
    """

    results: list[PromptResult]
    tokens: int
    kl: Interval
    agreement: Interval
    perplexity: float
    fuller_perplexity: float
    self_agreement: float
    partings: int
    surprising_partings: int
    verdict: str
    seconds: float
    fuller_seconds: float
