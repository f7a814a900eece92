"""KV offload below the cache: memory and disk tiers, by chunks of tokens."""
