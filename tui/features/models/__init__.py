"""Features of models: choice, pulls and memory."""
