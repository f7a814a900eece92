"""Low-rank adapters of models: PEFT's files, and the model's layers with them."""
