"""Making a smaller file of a model: GGUF from GGUF or from safetensors."""
