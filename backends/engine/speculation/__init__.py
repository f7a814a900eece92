"""Speculative decoding: drafters, draft lengths and step costs."""
