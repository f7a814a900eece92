"""DRY: penalties for tokens that would repeat a sequence, growing with its length."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...base.sampling_params import SamplingParams
from ...text.tokenization.tokenizer import Tokenizer

_KEPT = 8
_LONGEST_BREAKER_BYTES = 40
_LONGEST_TAIL = 20
_LARGEST_EXPONENT = 88.7228391
"""The largest x for which e ** x is a finite float32."""

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class SequenceBreakers:
    """Tokens with which a breaker begins, each with the tokens that may complete it.

    An empty tail is a breaker within the one token.
    """

    tails: dict[int, list[tuple[int, ...]]]

    def is_breaker(self, token: int) -> bool:
        """Whether the token holds a whole breaker."""
        return () in self.tails.get(token, ())

    def last_end(self, tokens: Tokens) -> int:
        """How many tokens follow the last breaker; all of them where there is none."""
        count = len(tokens)
        if not self.tails or not count:
            return count
        heads = np.flatnonzero(np.isin(tokens, list(self.tails)))
        for head in reversed(heads.tolist()):
            following = count - 1 - head
            longest = -1
            for tail in self.tails[int(tokens[head])]:
                size = len(tail)
                matches = size <= following and tuple(tokens[head + 1 : head + 1 + size]) == tail
                if matches:
                    longest = max(longest, size)
            if longest >= 0:
                return following - longest
        return count


class DryPenalties:
    """Computes the penalties of a sequence's next tokens; caches the latest sets of breakers.

    Finding a breaker's tokens goes through the whole vocabulary. Safe from several threads.
    """

    def __init__(self, tokenizer: Tokenizer, *, room: int) -> None:
        """No more than the last `room` tokens are looked at."""
        self._tokenizer = tokenizer
        self._room = room
        self._texts: list[bytes] | None = None
        self._made: OrderedDict[tuple[str, ...], SequenceBreakers] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self, params: SamplingParams) -> None:
        """Find the breakers for these parameters, if they ask for any, before they are needed."""
        if params.has_dry:
            self._breakers(params.dry_sequence_breakers)

    def penalties(self, params: SamplingParams, token_ids: list[int]) -> dict[int, float]:
        """What to take off the logits of the tokens that may follow `token_ids`."""
        last_n = params.dry_penalty_last_n
        window = self._room if last_n < 0 else min(last_n, self._room)
        allowed = params.dry_allowed_length
        if params.dry_base < 1 or min(len(token_ids), window) <= allowed:
            return {}
        tokens = np.asarray(token_ids[-window:], np.int64)
        breakers = self._breakers(params.dry_sequence_breakers)
        limit = breakers.last_end(tokens)
        if limit < allowed:
            return {}
        most = math.inf
        if params.dry_base > 1.000001:
            most = int(_LARGEST_EXPONENT / math.log(params.dry_base))
        return {
            token: params.dry_multiplier * params.dry_base ** min(length - allowed, most)
            for token, length in _repeats(tokens, limit, allowed).items()
            if length >= allowed and token >= 0 and not breakers.is_breaker(token)
        }

    def _breakers(self, wanted: tuple[str, ...]) -> SequenceBreakers:
        texts = tuple(dict.fromkeys(text for text in wanted if text))
        with self._lock:
            found = self._made.get(texts)
            if found is None:
                found = self._made[texts] = self._find(texts)
                if len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(texts)
            return found

    def _find(self, texts: tuple[str, ...]) -> SequenceBreakers:
        if self._texts is None:
            ids = range(self._tokenizer.vocab_size)
            self._texts = [self._tokenizer.token_bytes(i, special=True) for i in ids]
        tails: dict[int, list[tuple[int, ...]]] = {}
        for text in texts:
            breaker = text.encode("utf-8", "replace")[:_LONGEST_BREAKER_BYTES]
            for token, word in enumerate(self._texts):
                for tail in self._tails(word, breaker):
                    known = tails.setdefault(token, [])
                    if tail not in known:
                        known.append(tail)
        return SequenceBreakers(tails)

    def _tails(self, word: bytes, breaker: bytes) -> list[tuple[int, ...]]:
        """What has to follow the word so that the breaker stands in the text."""
        if breaker in word:
            return [()]
        found: list[tuple[int, ...]] = []
        for size in range(min(len(word), len(breaker) - 1), 0, -1):
            if word.endswith(breaker[:size]):
                rest = breaker[size:].decode("utf-8", "replace")
                tail = self._tokenizer.encode(rest, add_special=False, parse_special=False)
                found.append(tuple(tail[:_LONGEST_TAIL]))
        return found


def _repeats(tokens: Tokens, limit: int, allowed: int) -> dict[int, int]:
    """For each token that followed the text's end elsewhere: the longest end that it followed."""
    ends = np.arange(len(tokens) - 1)
    # Where nothing at all has to be repeated, all that was said before costs something.
    longest: dict[int, int] = dict.fromkeys(tokens[1:].tolist(), 0) if allowed <= 0 else {}
    length = 0
    while length < limit and len(ends):
        # Those whose last `length + 1` tokens are the text's own.
        ends = ends[ends >= length]
        ends = ends[tokens[ends - length] == tokens[len(tokens) - 1 - length]]
        if not len(ends):
            break
        length += 1
        for token in np.unique(tokens[ends + 1]).tolist():
            longest[token] = length
    return longest
