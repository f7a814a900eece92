"""Runs inside the environment of xllamacpp: its server until our end of stdin closes."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> None:
    """Serve with the settings that stand as JSON in the first argument."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = wanted["model"]
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.n_parallel = wanted["slots"]
    params.n_ctx = wanted["context"]
    params.kv_unified = True
    params.hostnames = ["127.0.0.1"]
    params.port = wanted["port"]
    params.verbosity = 1
    server = xllamacpp.Server(params)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
