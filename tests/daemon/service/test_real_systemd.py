"""`ingle service` under a real systemd user manager in separate namespaces, with a model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

SYSTEMD = Path("/lib/systemd/systemd")

SCRIPT = r"""
set -u
mount -t tmpfs tmpfs /run || exit 77
mkdir -p /run/systemd/system /run/u /run/home; chmod 700 /run/u
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
  mkdir "$tree/$GROUP" 2> /dev/null && echo $$ > "$tree/$GROUP/cgroup.procs"
done
export XDG_RUNTIME_DIR=/run/u HOME=/run/home XDG_CONFIG_HOME=/run/home/.config
mkdir -p $XDG_CONFIG_HOME/ingle
printf 'port = -1\nimport_models = false\n' > $XDG_CONFIG_HOME/ingle/config.toml
cd /
ingle() { "$PYTHON" -P -m ingle.daemon.main "$@"; }
property() { systemctl --user show -p "$1" --value "$2"; }
becomes() {
  for _ in $(seq 200); do [ "$(property "$1" "$2")" = "$3" ] && return; sleep 0.1; done
  exit 3
}
is() { becomes ActiveState "$1" "$2"; }

"$SYSTEMD" --user > /run/log 2>&1 &
for _ in $(seq 100); do [ -S /run/u/systemd/private ] && break; sleep 0.1; done
[ -S /run/u/systemd/private ] || exit 77

ingle service install || exit 4
[ "$(property ActiveState ingle.socket)" = active ] && echo "== listens"
[ "$(property ActiveState ingle.service)" = inactive ] && echo "== nothing runs yet"
ingle run "$MODEL" Hi --max-tokens 5 > /run/answer
[ -s /run/answer ] && echo "== a model answers"
pid=$(property MainPID ingle.service)
grep -q "^NoNewPrivs:.1" "/proc/$pid/status" && grep -q "^Seccomp:.2" "/proc/$pid/status" &&
  echo "== it is confined"
echo "== $(property StatusText ingle.service)"
ingle service status > /dev/null && echo "== as wanted"
ingle stop > /dev/null
is ingle.service inactive && is ingle.socket active && echo "== stopped, and listens on"
ingle ps > /dev/null && is ingle.service active && echo "== comes again"
kill -9 "$(property MainPID ingle.service)"
becomes NRestarts ingle.service 1 && is ingle.service active && echo "== restarts"
ingle ps | head -1
ingle service uninstall > /run/said && echo "== uninstalled"
grep -q /run/home/.local /run/said && echo "== told what stays"
[ -z "$(ls /run/home/.config/systemd/user)" ] && [ ! -S /run/u/ingle/ingle.sock ] && echo "== gone"
systemctl --user exit
"""


def remove_groups(name: str) -> None:
    """Remove the control groups left by the namespace; each is an empty folder."""
    for tree in ("systemd", "unified", "."):
        for folder, _, _ in os.walk(Path("/sys/fs/cgroup", tree, name), topdown=False):
            with suppress(OSError):  # a process in it is still exiting
                Path(folder).rmdir()


@pytest.mark.slow
@pytest.mark.model
def test_user_systemd_runs_the_service(smollm2_path: Path) -> None:
    if os.geteuid() != 0 or not SYSTEMD.exists() or shutil.which("unshare") is None:
        pytest.skip("needs root, systemd and namespaces")
    group = f"ingle-test-{os.getpid()}"
    variables = {"PYTHON": sys.executable, "SYSTEMD": str(SYSTEMD), "GROUP": group}
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("INGLE_")
    }
    options = ["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        ["unshare", *options, "bash", "-c", SCRIPT],
        env={**environment, **variables, "MODEL": str(smollm2_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    remove_groups(group)
    if done.returncode == 77:
        pytest.skip("no systemd can be started here")
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    for words in (
        *("listens", "nothing runs yet", "a model answers", "it is confined", "as wanted"),
        *("Listening on /run/u/ingle/ingle.sock", "stopped, and listens on", "comes again"),
        *("restarts", "uninstalled", "told what stays", "gone"),
    ):
        assert f"== {words}\n" in output, output + done.stderr
