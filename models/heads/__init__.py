"""Heads that draft: layers beside a model that predict later tokens from its hidden states."""
