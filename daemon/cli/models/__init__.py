"""Commands that manage models: pull, list, load, quantize."""
