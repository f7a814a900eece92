"""Writes a smaller GGUF file of a model, from GGUF or from safetensors."""
