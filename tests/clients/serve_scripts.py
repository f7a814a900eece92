"""`ingle serve` with scripted models: a model with a `script.json` beside its file follows it.

The tests of this folder run it as a program. Everything else is the regular daemon: settings,
sockets, protocols, and a worker process for each model.
"""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import LoadPlan, ModelLoadPlanner
from ingle.daemon.main import main
from ingle.daemon.server import daemon_server
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.gguf.gguf_header import read_header
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

SCRIPT = "script.json"
_BATCH = 8192
_SIZE = 1 << 20


class ScriptPreparer(ModelLoadPlanner):
    """The daemon's preparer, but a model with a script is run by the scripted engine."""

    def __call__(
        self, model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
    ) -> LoadPlan:
        """The load plan; prompts use the chat template of the model's file."""
        script = model.path.parent / SCRIPT
        if model.task is not ModelTask.GENERATE or not script.exists():
            return super().__call__(model, options, available=available)
        header = read_header(model.path)
        spec = LoadSpec(
            engine="scripted",
            path=str(model.path),
            context=min(options.context or header.context, header.context),
            kv_capacity=2 * header.context,
            slots=4,
            batch=_BATCH,
            chat_template=header.chat_template,
            script=msgspec.json.encode(msgspec.json.decode(script.read_bytes())).decode(),
        )
        return LoadPlan(spec, MemoryNeeds(_SIZE))


if __name__ == "__main__":
    daemon_server.build_services = partial(  # pyright: ignore[reportAttributeAccessIssue]
        daemon_server.build_services, make_preparer=ScriptPreparer
    )
    sys.exit(main(["serve", *sys.argv[1:]]))
