"""The Debian package: built, installed, upgraded while a model answers, and removed.

It runs in a mount and PID namespace over an overlay, so that the machine is not changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingle.backends.packages.engine_installer import build_cache, install_engine
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.packages.package_source import PackageSource

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = ("dpkg-deb", "dpkg", "unshare", "chroot", "setsid")

INSIDE = r"""
set -eu
mount -t tmpfs tmpfs "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work" "$SCRATCH/root"
mount -t overlay overlay \
  -o "lowerdir=/,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" "$SCRATCH/root" || exit 77
cd "$SCRATCH/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p packages model home/.cache/ingle/engines
mount --bind "$PACKAGES" packages
mount --bind "$ENGINES" home/.cache/ingle/engines
mount --bind "$MODEL" model
exec chroot . /bin/bash -eu -c "$STEPS"
"""
STEPS = r"""
unset VIRTUAL_ENV PYTHONPATH
export HOME=/home INGLE_PORT=-1 INGLE_CONTEXT=2048 INGLE_IMPORT_MODELS=false
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
cd /
say() { echo "== $*"; }

dpkg -i /packages/ingle_0.1.0_*.deb > /dev/null
say "version $(ingle version)"
ingle doctor > /dev/null || say "doctor exits with $?"
test -x /usr/bin/ingle
test -s /usr/share/man/man1/ingle.1.gz
test -s /usr/lib/systemd/user/ingle.service
bash -n /usr/share/bash-completion/completions/ingle

model=$(echo /model/*.gguf)
story="Once upon a time there was a lighthouse by the sea, and its keeper had a cat. "
for number in 1 2 3 4 5; do story="$story$story"; done
ingle run "$model" "$story" --max-tokens 4 > /dev/null
old=$(ingle ps --json | grep -o '"pid": [0-9]*' | head -1)
ingle run "$model" "Tell me a long story." --max-tokens 60 > /home/answer.txt 2> /home/errors.txt &
asking=$!
while [ ! -s /home/answer.txt ] && kill -0 "$asking"; do sleep 0.05; done

dpkg -i /packages/ingle_0.1.1_*.deb > /dev/null
wait "$asking" && say "the answer completed"
test -s /home/answer.txt
say "version $(ingle version)"
ingle run "$model" "$story" --max-tokens 4 --json > /home/again.json
new=$(ingle ps --json | grep -o '"pid": [0-9]*' | head -1)
test "$old" != "$new"
say "cached $(grep -o '"cached_tokens": [0-9]*' /home/again.json)"
ingle ps | head -1 | grep -q "ingle 0.1.1" && say "the new daemon runs"

dpkg -r ingle > /home/removed.txt
grep -q "stays" /home/removed.txt && say "removal lists what remains"
test ! -e /usr/bin/ingle
test ! -e /usr/lib/ingle && say "no program files are left"
test -d /home/.local/state/ingle && say "user data remains"
if pgrep -f '^/usr/lib/ingle/bin/python'; then exit 1; fi
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of this checkout, and one with the next version number."""
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in TOOLS):
        pytest.skip("needs root, dpkg and namespaces")
    if not Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}").exists():
        pytest.skip("the distribution's Python is another one than this")
    folder = tmp_path_factory.mktemp("packages")
    for version in ("0.1.0", "0.1.1"):
        command = [sys.executable, ROOT / "packaging/deb/build", folder]
        subprocess.run([*command, "--fast", "--version", version], check=True)
    return folder


@pytest.fixture(scope="module")
def built_engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's cache of builds with llama.cpp, from which it is installed without a network."""
    llama_cpp = all_engine_packages()["llama.cpp"]
    built = build_cache(llama_cpp)
    assert built is not None
    if not built.exists():
        store = EngineStore(tmp_path_factory.mktemp("engines"))
        install_engine(llama_cpp, store, PackageSource())
    return built.parent


@pytest.mark.slow
@pytest.mark.model
def test_package_is_installed_upgraded_and_removed(
    packages: Path, built_engines: Path, smollm2_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    variables = {
        "SCRATCH": str(tmp_path / "scratch"),
        "PACKAGES": str(packages),
        "MODEL": str(smollm2_path.parent),
        "ENGINES": str(built_engines),
        "STEPS": STEPS,
    }
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", INSIDE],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("there is no overlay file system")
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    assert "== version ingle 0.1.0" in output
    assert "== version ingle 0.1.1" in output
    assert "== the answer completed" in output
    assert "== the new daemon runs" in output
    cached = int(output.partition('"cached_tokens": ')[2].split()[0])
    assert cached > 256, "what was computed before the upgrade is not computed again"
    for words in ("removal lists what remains", "no program files are left", "user data remains"):
        assert f"== {words}" in output
