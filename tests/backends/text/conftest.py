"""Chat templates that are closed when their test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ingle.backends.text.chat_template import ChatTemplate
from ingle.backends.text.template_helper import RenderLimits

MakeTemplate = Callable[..., ChatTemplate]


@pytest.fixture
def make_template() -> Iterator[MakeTemplate]:
    """Templates whose time limit no busy machine can reach, unless a test gives others."""
    with ExitStack() as stack:

        def make(
            source: str,
            *,
            bos_token: str = "<s>",
            eos_token: str = "</s>",
            limits: RenderLimits | None = None,
        ) -> ChatTemplate:
            limits = limits or RenderLimits(seconds=30)
            template = ChatTemplate(source, bos_token=bos_token, eos_token=eos_token, limits=limits)
            return stack.enter_context(template)

        yield make
