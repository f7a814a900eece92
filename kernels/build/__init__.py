"""Compile CUDA C++ to cubins with NVRTC or nvcc, and find prebuilt and cached ones."""
