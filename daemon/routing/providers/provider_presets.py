"""Presets of common providers, for `ingle provider add`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "kind": "responses",
        "base_url": "https://api.openai.com/v1",
        "json_schema": True,
    },
    "anthropic": {"kind": "anthropic", "base_url": "https://api.anthropic.com/v1"},
    "openrouter": {"kind": "openai", "base_url": "https://openrouter.ai/api/v1"},
    "groq": {"kind": "openai", "base_url": "https://api.groq.com/openai/v1"},
    "mistral": {"kind": "openai", "base_url": "https://api.mistral.ai/v1", "json_schema": True},
    "own": {
        "kind": "openai",
        "base_url": "http://127.0.0.1:8000/v1",
        "own": True,
        "json_schema": True,
        "extra_sampling": True,
    },
}
"""Keys of `providers.toml` by the preset's name."""
