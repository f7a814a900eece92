"""The types of Anthropic's tools: run by the client, or by Anthropic's servers."""

from __future__ import annotations

import re

# A tool of Anthropic's servers, such as web_search_20250305.
_HOSTED = re.compile(r"\w+_20\d{6}|mcp_toolset")
_CLIENT_SIDE = re.compile(r"(?:bash|text_editor|memory|computer)_20\d{6}")


def is_client_tool(kind: str) -> bool:
    """Whether a tool of this type runs on the client, with a schema that is known here."""
    return _CLIENT_SIDE.fullmatch(kind) is not None


def is_hosted_tool(kind: str) -> bool:
    """Whether a tool that is no `is_client_tool` runs on Anthropic's servers."""
    return _HOSTED.fullmatch(kind) is not None
