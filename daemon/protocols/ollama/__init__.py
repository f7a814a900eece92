"""Ollama's API under `/api/`: chat, generate, embeddings, and its library of models."""
