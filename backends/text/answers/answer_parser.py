"""The base class of incremental answer parsers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...base.conversation import Tool
from ..streaming.text_source import Steps, TextSource
from ..tool_calls.call_sink import CallSink, Part


class AnswerParser(ABC):
    """Parses one answer incrementally, independent of chunk borders; accepts any input.

    Text that turns out not to be a call is emitted as text; nothing is lost.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        parallel: bool,
        names: Sequence[str],
        prompt_prefix: str = "",
        thinking: bool = False,
    ) -> None:
        """Without `tools` there are no calls; `names`, if given, limits which may be called."""
        self._sink = CallSink(tools, parallel=parallel, names=names)
        self._calls = bool(tools)
        self._source = TextSource(prompt_prefix)
        self.thinking = thinking
        """Whether the model is reasoning at this point."""
        self.is_complete = False
        """Whether the only call that is wanted has been read; what follows is dropped."""
        self._steps = self._read()

    def push(self, text: str) -> list[Part]:
        """Return the parts that became certain with this text."""
        self._source.feed(text)
        next(self._steps, None)
        return self._sink.take()

    def finish(self) -> list[Part]:
        """Return the rest at the end; incomplete arguments are completed."""
        self._source.ended = True
        next(self._steps, None)
        return self._sink.take()

    @abstractmethod
    def _read(self) -> Steps[None]:
        """Parse the source into the sink, yielding while more text is needed."""
