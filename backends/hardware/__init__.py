"""What this machine has: graphics processors, processor, memory, disk and software."""
