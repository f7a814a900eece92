"""Tool call formats of models: detection, parsing, and templates for grammars."""
