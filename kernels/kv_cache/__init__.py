"""Pages of keys and values: formats, quantisation and append."""
