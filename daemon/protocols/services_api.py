"""Base class of the APIs whose routes use the services of the daemon."""

from __future__ import annotations

from ..services import Services


class ServicesApi:
    """Routes that use the services of the daemon."""

    def __init__(self, services: Services) -> None:
        self._services = services
