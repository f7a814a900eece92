// Fragments of weights that are codes of four bits, one after the other, 16 bytes a group at the beginning of
// a slab's rows.
#pragma once
#include "gemm.cuh"
#include "code_table.cuh"

// A lane's eight codes are in the halves of two words.
template <int ROW_BYTES>
DEVICE void load_codes(const CodeTable& table, u32 (&a)[2][4], const u8* rows, int pair) {
  const int lane = threadIdx.x % 32;
  const u32 halves = lane % 2 ? 0x7632u : 0x5410u;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u8* const row = rows + (lane / 4 + i % 2 * 8) * ROW_BYTES;
    const u32* const words = reinterpret_cast<const u32*>(row + (2 * pair + i / 2) * 16 + lane % 4 / 2 * 4);
    const u32 codes = permute_bytes(words[0], words[2], halves);
    const u32 index = codes & 0x77777777u, select = (codes >> 1 & 0x44444444u) | 0x32103210u;
    a[i / 2][i % 2] = table.look_up(index, select);
    a[i / 2][i % 2 + 2] = table.look_up(index >> 16, select >> 16);
  }
}
