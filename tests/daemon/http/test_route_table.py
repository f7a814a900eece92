"""Every declared route is served and has its line in the documentation."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ingle.daemon import protocols
from ingle.daemon.http.route_spec import DECLARED
from ingle.daemon.server.route_table import route_table

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

DOCS = Path(__file__).parents[3] / "docs"
PROTOCOLS = Path(protocols.__path__[0])


def described(method: str, path: str) -> re.Pattern[str]:
    """`METHOD path`, perhaps after other methods or paths; parameters may have any name."""
    parts = re.split(r"\{[^}]*\}", path)
    return re.compile(rf"\b{method}\b[^\n|]*?{r'[^/`?]+'.join(map(re.escape, parts))}(?=[`?,])")


async def test_every_route_has_its_line(daemon: RunningDaemon) -> None:
    pages = "".join((DOCS / name).read_text("utf-8") for name in ("api.md", "protocols.md"))
    routes = [(spec.method, spec.path) for spec in route_table(daemon.services)]
    assert not [(m, p) for m, p in routes if not described(m, p).search(pages)]


async def test_every_declared_route_is_served(daemon: RunningDaemon) -> None:
    """A class that the table lacks declares routes in vain."""
    served = {(spec.method, spec.path) for spec in route_table(daemon.services)}
    declared = _declared()
    assert len(declared) > 80
    assert not {name for route, name in declared.items() if route not in served}


def _declared() -> dict[tuple[str, str], str]:
    """The names of the handlers of all declared routes, by method and path."""
    return {
        (spec.method, spec.path): f"{api.__name__}.{name}"
        for path in PROTOCOLS.rglob("*.py")
        for api in vars(_module(path)).values()
        if isinstance(api, type)
        for name, handler in vars(api).items()
        for spec in getattr(handler, DECLARED, ())
    }


def _module(path: Path) -> ModuleType:
    parts = path.relative_to(PROTOCOLS).with_suffix("").parts
    return import_module(".".join([protocols.__name__, *parts]).removesuffix(".__init__"))
