"""The error of requests to the web."""

from __future__ import annotations


class WebFailed(Exception):
    """An address is refused, or its server gave nothing; the message is a sentence."""
