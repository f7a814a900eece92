"""Grammars for constrained decoding: JSON schema, tool calls, Lark."""
