"""Models served by other machines: cloud providers and the owner's servers."""
