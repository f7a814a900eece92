"""`ingle advise`: candidates, choice, text, and writing it into config.toml."""
