"""config.toml, INGLE_* variables, flags, and the daemon's folders."""
