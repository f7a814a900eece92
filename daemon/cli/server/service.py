"""`ingle service`: installs the daemon as a service of the system, and removes it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...settings.config import Config, load_config
from ...terminal.terminal_output import print_json, print_status, print_text
from ..command_errors import CommandError
from ..command_parser import CommandParser

if TYPE_CHECKING:
    from ...service.service_manager import ServiceManager

EXAMPLES = """\
  ingle service install --dry-run    what would be written
  ingle service install              have the system listen and start it
  ingle service status
  ingle service uninstall            chats, models and settings stay"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the three subcommands; raises `CommandError`."""
    parser = CommandParser(
        "service",
        "Have the system start the daemon: systemd on Linux (its socket always listens,\n"
        "the daemon starts on the first connection), launchd on macOS, a task on Windows.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "action",
        choices=["install", "uninstall", "status"],
        metavar="install|uninstall|status",
        help="what to do",
    )
    parser.add_flag("--dry-run", help="print the files; change nothing")
    parser.add_flag("--no-start", help="only write or remove files; do not start or stop anything")
    options = parser.parse_args(arguments)
    config = load_config(os.environ)
    system = _service_manager(config)
    actions = {"install": _install, "uninstall": _uninstall, "status": _status}
    return actions[options.action](system, config, options)


def _service_manager(config: Config) -> ServiceManager:
    """Return the service manager of this platform."""
    from ...service.launch_command import launch_of

    if sys.platform == "win32":
        from ...service.windows_task import WindowsTask as PlatformService
    elif sys.platform == "darwin":
        from ...service.launchd import LaunchdService as PlatformService
    else:
        from ...service.systemd import SystemdService as PlatformService
    return PlatformService(launch_of(config, os.environ), os.environ)


def _install(system: ServiceManager, config: Config, options: Namespace) -> int:
    from ...service.launch_command import ignored_variables

    if options.dry_run:
        return _show(system, options)
    if not options.no_start and (trouble := system.trouble()):
        raise CommandError(
            f"{trouble} Nothing was changed.", "`--no-start` only writes the files, for later."
        )
    written = system.write_files()
    started = not options.no_start
    if started:
        if written:
            from .stop import stop

            # The service needs the socket of a daemon that a command started.
            if (pid := stop(config)) is not None:
                print_status(f"Stopped the daemon that ran (pid {pid}); the service takes over.")
        system.start()
    ignored = ignored_variables(os.environ)
    if options.json:
        print_json({"system": system.name, "written": written, "started": started})
    else:
        for path in written:
            print_text(f"Wrote {path}")
        if not written:
            print("All files were up to date.")
        if started:
            print(f"{system.name} starts the daemon from now on.")
            for hint in system.hints():
                print(hint)
    if not system.ran:
        print_status(
            f"This has not been tested under {system.name} yet: please report how it went."
        )
    if ignored:
        place = config.paths.config_file
        print_status(f"The service does not see {', '.join(ignored)}: put that into {place}.")
    return 0


def _uninstall(system: ServiceManager, config: Config, options: Namespace) -> int:
    there = [file.path for file in system.files() if file.status().exists]
    if options.dry_run:
        for path in there:
            print_text(f"Would remove {path}")
        return 0
    stopped = bool(there) and not options.no_start and not system.trouble()
    if stopped:
        system.stop()
    removed = system.remove_files()
    kept = [config.paths.config, config.paths.models, config.paths.state, config.paths.chats]
    if options.json:
        report = {"system": system.name, "removed": removed, "stopped": stopped}
        print_json(report | {"kept": [str(path) for path in kept if path.exists()]})
        return 0
    for path in removed:
        print_text(f"Removed {path}")
    if not removed:
        print("The service was not installed.")
    if any(path.exists() for path in kept):
        print("Your data stays: settings, models, chats and their stored data, in")
        for path in kept:
            if path.exists():
                print_text(f"  {path}")
    return 0


def _status(system: ServiceManager, config: Config, options: Namespace) -> int:
    """Return 0 if it is installed with the current files, else 1."""
    status = system.status()
    good = status.installed and status.current
    if options.json:
        print_json(status)
        return 0 if good else 1
    words = "installed" if status.installed else "not installed"
    if status.installed and not status.current:
        words += ", but not as `ingle service install` would write it now"
    print(f"{status.system}: {words}.")
    for file in status.files:
        mark = "as wanted" if file.as_wanted else "different" if file.exists else "not there"
        print_text(f"  {file.path}: {mark}")
    if status.trouble:
        print(status.trouble)
    elif status.installed:
        running = "runs" if status.state.running else "does not run now"
        enabled = "is enabled" if status.state.enabled else "is not enabled"
        print(f"  It {enabled}, and {running}.")
    return 0 if good else 1


def _show(system: ServiceManager, options: Namespace) -> int:
    """Print the files as they would be written."""
    texts = {
        str(file.path): file.content.decode(
            "utf-16" if file.content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
        )
        for file in system.files()
    }
    if options.json:
        print_json({"system": system.name, "files": texts})
    else:
        for path, text in texts.items():
            print_text(f"# {path}")
            print(text)
    return 0
