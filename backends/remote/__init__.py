"""Models that other machines run: clouds, and the owner's own servers."""
