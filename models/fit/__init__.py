"""Memory estimates: llama.cpp, ingle's own engine, and the process around them."""
