"""KV cache bookkeeping: the paged prefix cache, and the slot cache over llama.cpp's cells."""
