"""Rule-based extraction of facts that a summary must keep: sentences, quotes and corrections."""
