"""OpenAI's chat completions and plain completions."""
