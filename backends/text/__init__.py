"""From messages to tokens and back: chat template, detokeniser, stop strings."""
