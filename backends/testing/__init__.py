"""A scripted model runner with a byte tokenizer, for tests and demonstrations."""
