"""Safetensors headers and the Hugging Face model folders around them."""
