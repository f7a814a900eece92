"""Sampling parameters of a request, and the grammar that constrains its answer."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is chosen; `temperature` 0 is greedy.

    The steps come in llama.cpp's order: `logit_bias`, penalties, DRY, `top_n_sigma`, `top_k`,
    `typical_p`, `top_p`, `min_p`, XTC, temperature (`dynatemp_range` around it), then the draw.
    `mirostat` 1 or 2 takes the place of everything between DRY and the draw but the temperature.

    Penalties count the last `repeat_last_n` generated tokens (-1: all of them) and never the
    prompt, so that an answer may quote it. DRY looks back on `dry_penalty_last_n` tokens (-1: as
    far as the context goes), those of the prompt included, as llama-server does.
    """

    temperature: float = 0.8
    top_p: float = 0.95
    top_k: int = 40
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_last_n: int = -1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    logit_bias: dict[int, float] = {}
    seed: int | None = None

    @property
    def is_plain_greedy(self) -> bool:
        """True where the next token is the largest raw logit, so that no sampler is needed."""
        return (
            self.temperature <= 0
            and not self.logit_bias
            and not self.has_penalties
            and not self.has_dry
        )

    @property
    def has_penalties(self) -> bool:
        """True where earlier tokens change the probabilities of later ones."""
        return self.repeat_last_n != 0 and (
            self.repeat_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
        )

    @property
    def has_dry(self) -> bool:
        """True where repeating what was said before grows dearer with its length."""
        return self.dry_multiplier != 0.0 and self.dry_penalty_last_n != 0


class GrammarKind(StrEnum):
    """The languages a constraint on the answer may be written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    GBNF = "gbnf"


class Grammar(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every answer to a request must match, whole; `param` is the field that says so.

    A `lenient` schema is followed as far as its keywords are supported; else an unsupported one is
    a reason to reject the request.
    """

    kind: GrammarKind
    text: str
    lenient: bool = False
    param: str = "grammar"
