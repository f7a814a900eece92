"""Commands that measure and compare models: bench, eval, verify, advise."""
