"""Installs a toy engine in a process of its own, which tests kill, race, or run on a full disk.

Arguments: the engine as JSON, the folder of its requirements and of `engines`, the folder of
wheels, and perhaps a step, or a pattern of a file below `engines`: once that is reached, the
process kills itself.
Prints the steps, an error and what to do, and the version that can be imported then.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

import msgspec

from ingle.backends.packages import engine_packages, engine_store
from ingle.backends.packages.engine_installer import install_engine
from ingle.backends.packages.engine_packages import EnginePackages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.packages.errors import InstallFailed
from ingle.backends.packages.package_source import ClientProgress, PackageSource


def main(engine: str, home: str, wheels: str, fatal: str = "") -> int:
    """Return 1 if the installation fails."""
    toy = msgspec.json.decode(engine, type=EnginePackages)
    engine_packages._FOLDER = Path(home)  # pyright: ignore[reportPrivateUsage]
    engine_store.all_engine_packages = lambda: {toy.name: toy}
    store = EngineStore(Path(home) / "engines")

    def show(progress: ClientProgress) -> None:
        print(progress.step)
        if progress.step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def die_in_time() -> bool:
        if fatal and any(store.folder.glob(fatal)):
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    failed = False
    try:
        install_engine(toy, store, PackageSource(wheels, offline=True), show, die_in_time)
    except InstallFailed as error:
        failed = True
        print(error.message, error.hint)
    sys.path[:0] = store.import_path([toy.engine])
    print("usable:", importlib.import_module(toy.module).VERSION)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
