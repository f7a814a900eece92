"""Hardware and software inventory: GPUs, CPU, memory, disk, engines."""
