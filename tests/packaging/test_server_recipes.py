"""The recipes for servers of one's own: syntax, and that they are reached as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ingle.daemon.routing.providers.provider_store import PRESETS

RECIPES = Path(__file__).parents[2] / "packaging/servers"


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((RECIPES / name).read_text())


def test_compose_file_opens_the_preset_port_to_this_machine_only() -> None:
    service = read("vllm.compose.yaml")["services"]["vllm"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert PRESETS["vllm"]["base_url"] == "http://127.0.0.1:8000/v1"
    assert service["environment"]["VLLM_API_KEY"].startswith("${VLLM_API_KEY:?")


def test_ray_application_serves_at_the_preset_path() -> None:
    recipe = read("ray-serve.yaml")
    (application,) = recipe["applications"]
    assert application["import_path"] == "ray.serve.llm:build_openai_app"
    assert (application["route_prefix"], recipe["http_options"]["port"]) == ("/", 8000)
    assert application["args"]["llm_configs"][0]["model_loading_config"]["model_id"]
