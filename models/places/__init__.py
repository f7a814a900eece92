"""Models that other programs keep on this machine, used where they lie."""
