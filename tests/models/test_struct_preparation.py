"""Types are decoded by many threads at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

RACE = """
import sys, threading, types
import msgspec
from {module} import prepared

sys.setswitchinterval(1e-6)
fields = lambda kind: "".join(f"    f{i}: {kind} = None\\n" for i in range(20))
source = "from __future__ import annotations\\nimport msgspec\\n" + "".join(
    f"class K{n}(msgspec.Struct):\\n{fields(f'K{n - 1} | None' if n else 'int | None')}"
    for n in range(12)
)
for n in range(10):
    module = sys.modules[f"m{n}"] = types.ModuleType(f"m{n}")
    exec(source, module.__dict__)
    barrier = threading.Barrier(8)

    def decode():
        barrier.wait()
        msgspec.json.decode(b'{"f0": {"f9": {"f1": {}}}}', type=prepared(module.K11))

    threads = [threading.Thread(target=decode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize(
    "module", ["ingle.models.struct_preparation", "ingle.daemon.client.answer"]
)
def test_first_use_of_a_type_by_several_threads_does_not_end_the_process(module: str) -> None:
    """Without `prepared` it ends by a signal, nearly always."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", RACE.replace("{module}", module)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
