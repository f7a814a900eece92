// The word of a group of four-bit weights: its scale, a float whose last eight bits are the code of zero.
#pragma once
#include "portable.cuh"

DEVICE float g4_scale(u32 word) { return bits_to_float(word & 0xffffff00u); }
DEVICE float g4_zero(u32 word) { return float(int(word & 255u)); }

// Of 1024 weights: their nibbles, and a word for each group.
DEVICE int g4_tile_bytes(int group) { return 512 + 4096 / group; }
