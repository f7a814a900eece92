"""Allocates memory to models, evicts idle ones and watches what other programs take."""
