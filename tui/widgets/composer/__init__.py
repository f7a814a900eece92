"""The prompt editor."""
