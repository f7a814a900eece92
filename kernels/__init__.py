"""One operation a file, each with its reference in plain torch."""
