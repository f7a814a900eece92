"""From a stored model to how it is loaded, what memory that takes, and whether it fits."""
