"""Messages of the evaluation process: its spec, progress and report."""

from __future__ import annotations

import msgspec

from ...base.conversation import ChatMessage
from ..verification.logit_comparison import Statistics


class EvaluationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Compare the model at `path` with the one at `fuller_path`, which has the same vocabulary.

    Each conversation in `prompts` ends with a user's message, and is answered with at most `tokens`
    tokens. `chat_template` replaces the fuller model's own.
    """

    path: str
    fuller_path: str
    prompts: list[list[ChatMessage]]
    tokens: int = 64
    chat_template: str | None = None


class EvaluationProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The model that is being loaded, else the number of prompts done of `total`."""

    loading: str | None = None
    done: int = 0
    total: int = 0


class AnswerDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where two answers diverge: after `shared` tokens, each continues with its own text.

    `likely` is the probability that the fuller model gives to the smaller one's token there, and
    `likeliest` the one it gives to its own: close values mean that sampling could have differed
    anyway.
    """

    shared: int
    likely: float
    likeliest: float
    common_text: str
    text: str
    fuller_text: str


class PromptResult(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: the fuller model's greedy answer, scored by both; `parting` is None if equal."""

    prompt: str
    answer: str
    statistics: Statistics
    parting: AnswerDivergence | None


class Interval(msgspec.Struct, frozen=True):
    """A mean, and its 95 % bootstrap interval over the prompts."""

    mean: float
    low: float
    high: float


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """The result over all prompts; divergences in nats.

    `self_agreement` is how often two samples of the fuller model at temperature 1 give the same
    next token: the noise of sampling itself.
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
