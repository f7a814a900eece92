"""`ingle serve` with scripted models.

`python -m tests.daemon.routing.scripted_serve`: the settings come from the environment.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ingle.daemon.server import daemon_server
from ingle.daemon.settings.config import load_config
from ingle.models.catalog import Catalog
from ingle.models.store.model_store import ModelStore
from tests.daemon.conftest import ScriptedPreparer, install


def main() -> None:
    config = load_config(os.environ, {"default_model": "echo:1"})
    install(ModelStore(config.paths.models, Catalog.load()), "echo:1")

    def preparer(*_: Any, **__: Any) -> ScriptedPreparer:
        return ScriptedPreparer({}, config.slots)

    daemon_server.build_services = partial(  # pyright: ignore[reportAttributeAccessIssue]
        daemon_server.build_services, make_preparer=preparer
    )
    daemon_server.run(config)


if __name__ == "__main__":
    main()
