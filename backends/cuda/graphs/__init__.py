"""CUDA graphs: step shapes, inputs at fixed addresses, recording and replay."""
