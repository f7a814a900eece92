"""How much a smaller model differs from a fuller one, on the prompts of whoever asks."""
