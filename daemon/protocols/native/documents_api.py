"""`POST /ingle/v1/documents/search`: passages of the owner's files."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ...access.permission import KeyNotAllowed, current_permission
from ...client.document_types import FoundPassages
from ...http.route_access import ADMIN
from ..services_api import ServicesApi
from .native_api import native_route


class DocumentSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder of this machine by its absolute path, and a question.

    Files that changed are read first, for `wait` seconds at most.
    """

    folder: Annotated[str, Meta(min_length=1, max_length=4096)]
    question: Annotated[str, Meta(min_length=1, max_length=20_000)]
    most: Annotated[int, Meta(ge=1, le=50)] = 8
    wait: Annotated[float, Meta(ge=0, le=600)] = 5.0


class DocumentsApi(ServicesApi):
    """Searches in folders."""

    @native_route("POST", "/ingle/v1/documents/search", access=ADMIN, errors=(404, 413, 422))
    async def search(self, body: DocumentSearch) -> FoundPassages:
        """A folder's passages for a question, the best first; for the owner's programs only."""
        permission = current_permission()
        if permission.key is not None:
            raise KeyNotAllowed(
                f"The key '{permission.key}' may not read files of this machine.",
                hint="Programs of its owner may, through the unix socket.",
            )
        return await self._services.documents.search(
            body.folder, body.question, body.most, body.wait
        )
