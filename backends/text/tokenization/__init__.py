"""Tokenizers, and inputs of embedding and reranking models as tokens."""
