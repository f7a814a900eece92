"""Plans how a stored model is loaded, the memory that it needs, and whether it fits."""
