"""Text primitives shared by views and detectors: index, folding, check digits."""
