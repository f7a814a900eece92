"""Commands that measure models: bench, eval, verify, advise."""
