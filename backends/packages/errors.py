"""Errors of installing engines."""

from __future__ import annotations

from ..base.errors import BackendError


class InstallFailed(BackendError):
    """The packages of an engine could not be installed; what was installed before still works."""

    code = "install_failed"


class InstallCancelled(BackendError):
    """The installation was cancelled; what was downloaded is kept."""

    code = "install_cancelled"

    def __init__(self) -> None:
        super().__init__("The installation was cancelled.", hint="Start it again to go on.")
