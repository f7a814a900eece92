"""What in a text may be private, found on this machine; hints for people, and no guarantee."""
