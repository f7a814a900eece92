"""Fetches the pictures of requests that have only their addresses."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import urljoin

from ingle.backends.base.errors import RequestRejected
from ingle.backends.remote.receipt import Outcome, Receipt

from ...web.web_address import checked_url, host_of
from ...web.web_errors import WebFailed
from .provider_egress import ProviderEgress

MOST_REDIRECTS = 5
SECONDS = 30.0
"""For one picture, with all redirects."""
_SENDER = "picture"


@dataclass
class _Traffic:
    sent: int = 0
    received: int = 0


class PictureFetcher:
    """Sends requests to public addresses only, each once the ledger has an entry of it."""

    def __init__(self, egress: ProviderEgress) -> None:
        self._egress = egress

    async def fetch(self, address: str, most_bytes: int) -> bytes:
        """Return the file, of which little more than `most_bytes` is read.

        Raises `RequestRejected`, `RemoteForbidden` if offline, and `LedgerUnwritable`.
        """
        try:
            async with asyncio.timeout(SECONDS):
                for _ in range(MOST_REDIRECTS + 1):
                    url = checked_url(address)
                    content, location = await self._get(url, most_bytes)
                    if not location:
                        return content
                    address = urljoin(url, location)
        except TimeoutError:
            raise _unreachable(f"It took longer than {SECONDS:.0f} seconds.") from None
        except WebFailed as error:
            raise _unreachable(str(error)) from error
        raise _unreachable("Its address redirects too often.")

    async def _get(self, url: str, most_bytes: int) -> tuple[bytes, str]:
        from ...web.web_client import get  # its imports take long

        intent = await self._egress.depart(_SENDER, host_of(url), "picture_urls")
        traffic, began, outcome = _Traffic(), time.monotonic(), Outcome.FAILED
        try:
            answer = await get(url, traffic, accept="image/*", most_bytes=most_bytes)
            outcome = Outcome.COMPLETE
        except asyncio.CancelledError:
            outcome = Outcome.CANCELLED
            raise
        finally:
            receipt = Receipt(
                bytes_sent=traffic.sent,
                bytes_received=traffic.received,
                seconds=time.monotonic() - began,
                outcome=outcome,
                attempts=1,
            )
            self._egress.settle(intent, receipt, 0.0)
        return answer.content, answer.location


def _unreachable(reason: str) -> RequestRejected:
    return RequestRejected(
        f"A picture cannot be fetched. {reason}",
        hint="Send the file itself, as a data URI.",
        code="invalid_picture",
        param="messages",
    )
