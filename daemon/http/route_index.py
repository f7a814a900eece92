"""Finds the declaration of a route by method and path, before the router runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from starlette.routing import compile_path

from .json_response import NATIVE, ErrorFormat
from .route_spec import RouteSpec


class RouteIndex:
    """All routes of the daemon by method and path, and the error formats of other paths."""

    def __init__(self, routes: Sequence[RouteSpec]) -> None:
        self._exact: dict[tuple[str, str], RouteSpec] = {}
        self._patterns: list[tuple[re.Pattern[str], RouteSpec]] = []
        formats: dict[str, Counter[ErrorFormat]] = {}
        for route in routes:
            if "{" in route.path:
                self._patterns.append((compile_path(route.path)[0], route))
            else:
                self._exact[route.method, route.path] = route
            for folder in _folders(route.path):
                formats.setdefault(folder, Counter())[route.error_format] += 1
        self._formats = {folder: uses.most_common(1)[0][0] for folder, uses in formats.items()}

    def find(self, method: str, path: str) -> RouteSpec | None:
        """The route that serves this request; a GET route serves HEAD, too."""
        for name in (method, "GET") if method == "HEAD" else (method,):
            if exact := self._exact.get((name, path)):
                return exact
            for pattern, route in self._patterns:
                if route.method == name and pattern.match(path):
                    return route
        return None

    def error_format(self, method: str, path: str) -> ErrorFormat:
        """The format of this request's errors, also if no route serves it.

        A path without a route has the format of most routes in the same folder, or in the
        closest one above that has routes.
        """
        for name in (method, "GET", "POST", "DELETE", "HEAD"):
            if route := self.find(name, path):
                return route.error_format
        return next((self._formats[f] for f in _folders(path) if f in self._formats), NATIVE)


def _folders(path: str) -> Iterator[str]:
    """The folders of a path, longest first, without the root: `/v1/chat/`, `/v1/`."""
    for end in range(len(path), 1, -1):
        if path[end - 1] == "/":
            yield path[:end]
