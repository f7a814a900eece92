"""Load cubins and launch kernels through the CUDA driver."""
