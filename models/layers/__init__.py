"""Parts that several architectures are made of."""
