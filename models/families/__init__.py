"""One architecture a module, found by its GGUF name."""
