"""The model runner over llama-cpp-python's low-level API."""
