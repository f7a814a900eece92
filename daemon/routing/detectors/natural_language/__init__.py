"""What a small network finds in prose: private passages, and names in them."""
