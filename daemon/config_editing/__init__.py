"""Edits JSON, TOML and YAML settings files in place, keeping comments."""
