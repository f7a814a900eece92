"""Reads the data files of the detectors."""

from __future__ import annotations

from importlib import resources


def read_data_file(name: str) -> bytes:
    """Return the content of the file of this name in `data/`."""
    return (resources.files("ingle.daemon.routing.detectors") / "data" / name).read_bytes()
