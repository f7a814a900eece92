"""The entries of a transcript: prompts, answers, notices and compactions."""
