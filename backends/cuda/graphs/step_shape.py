"""The shapes that steps are padded to, so that few of them have to be recorded."""

from __future__ import annotations

from typing import NamedTuple

_SMALLEST_CONTEXT = 1024


class StepShape(NamedTuple):
    """The sizes of a recorded step, to which smaller steps are padded.

    Each token has its row of logits. `longest_query` is at least the most tokens of a sequence,
    `longest_context` the longest context: kernels and their grids depend on them.
    """

    tokens: int
    sequences: int
    longest_query: int
    longest_context: int


class StepShapes:
    """The shapes that are recorded, up to the largest sizes."""

    def __init__(
        self, *, max_tokens: int, max_sequences: int, max_query: int, max_context: int
    ) -> None:
        self._max = StepShape(max_tokens, max_sequences, max_query, max_context)

    @property
    def max_tokens(self) -> int:
        """Tokens of the largest shape."""
        return rounded_up(self._max.tokens)

    def around(self, wanted: StepShape) -> StepShape | None:
        """The smallest shape that holds `wanted`; None if it is too large."""
        most = self._max
        if wanted.tokens > most.tokens or wanted.longest_query > most.longest_query:
            return None
        tokens = rounded_up(wanted.tokens)
        return StepShape(
            tokens,
            min(tokens, rounded_up(wanted.sequences)),
            min(query_bucket(wanted.longest_query), most.longest_query),
            self._context(wanted.longest_context),
        )

    def first(self) -> list[StepShape]:
        """The shapes of decoding without drafts while contexts are short."""
        return [StepShape(size, size, 1, self._context(1)) for size in self._streams()]

    def expected(self, *, verifies: bool) -> list[StepShape]:
        """Shapes of decoding in the order in which they are likely to come up.

        Fewer sequences come before more, shorter contexts before longer ones. If drafts are to be
        verified, those of one sequence follow its steps without drafts.
        """
        contexts = self._contexts()
        shapes: list[StepShape] = []
        for size in self._streams():
            shapes += [StepShape(size, size, 1, context) for context in contexts]
            if verifies and size == 1:
                counts = sorted({rounded_up(n) for n in range(2, self._max.longest_query + 1)})
                wanted = [StepShape(n, 1, n, context) for context in contexts for n in counts]
                shapes += [shape for each in wanted if (shape := self.around(each)) is not None]
        return shapes

    def _streams(self) -> list[int]:
        """The numbers of sequences that decoding steps are padded to."""
        return sorted({rounded_up(count) for count in range(1, self._max.sequences + 1)})

    def _contexts(self) -> list[int]:
        """The bounds of contexts, in ascending order."""
        contexts = [self._context(1)]
        while contexts[-1] < self._max.longest_context:
            contexts.append(self._context(contexts[-1] + 1))
        return contexts

    def _context(self, tokens: int) -> int:
        return min(context_bucket(tokens), self._max.longest_context)


def query_bucket(tokens: int) -> int:
    """To powers of two: attention multiplies rows of padding as well."""
    return 1 << (tokens - 1).bit_length()


def context_bucket(tokens: int) -> int:
    """To steps of a factor of four, within which the split of work hardly changes."""
    context = _SMALLEST_CONTEXT
    while context < tokens:
        context *= 4
    return context


def rounded_up(count: int) -> int:
    """To 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on: less than half of it is padding."""
    step = 1
    while count > 4 * step:
        step *= 2
    return -(-count // step) * step
