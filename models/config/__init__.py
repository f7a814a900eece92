"""The hyperparameters of a model, from a GGUF header or a config.json."""
