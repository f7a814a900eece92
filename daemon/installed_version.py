"""The version of the installed package."""

from __future__ import annotations

from functools import cache


@cache
def installed_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import version  # takes milliseconds of a start

    return version("ingle")
