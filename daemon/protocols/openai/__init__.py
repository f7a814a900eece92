"""OpenAI's API: chat, completions, embeddings, models, and ranking beside them."""
