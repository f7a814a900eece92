"""JSON, TOML and YAML settings files edited in place, with their comments kept."""
