"""Which engine and device run a model, with what context and settings."""
