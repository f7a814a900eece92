"""Answers one prompt with the help of tools."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...client.model_types import ModelEntry
from ...client.routing_types import RoutingState
from ...client.sync_client import DaemonClient
from ...settings.config import Config
from ...settings.paths import find_paths
from ..model_reference import find_entry
from ..models.pull import pull


def answer_with_tools(
    client: DaemonClient,
    config: Config,
    model: str,
    prompt: str,
    level: str,
    *,
    approve: Callable[[ModelEntry], None],
) -> None:
    """Print the answer; a model that is only in the catalog is pulled, unless `approve` raises.

    Tools up to the level need no consent. Raises `CommandError` and `ClientError`.
    """
    from ingle.tui.plain.tool_prompt import answer_with_tools as run_tools
    from ingle.tui.settings.chat_folders import ChatFolders

    routes = client.get("/ingle/v1/routing", RoutingState).routes
    if model not in [route.name for route in routes]:
        entry = find_entry(client, model)
        if not entry.installed:
            approve(entry)
            model = pull(client, entry.name).name
    paths = find_paths(os.environ)
    run_tools(str(config.socket), ChatFolders(paths.chats, paths.config), model, prompt, level)
