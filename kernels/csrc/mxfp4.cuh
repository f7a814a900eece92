// MXFP4 weights as kernels/formats/codecs.py lays them out: a row is tiles of 1024 weights, the last one
// maybe shorter; a tile is 16 bytes of codes for each of its groups of 32, low nibbles first, then the
// exponent of each.
#pragma once
#include "gemv.cuh"
#include "code_table.cuh"
#include "mxfp4_scale.cuh"

struct MXFP4 {
  struct Cursor {
    const u8 *codes, *exponent;  // this lane's, in a full tile
  };
  struct Raw {
    uint4 codes;
    u8 exponent;
  };
  struct Group {
    u32 bytes[8];
    float scale;
  };
  CodeTable table;
  int lane;

  DEVICE Cursor at(const u8* row, int, int tile) const {
    const u8* const start = row + tile * MXFP4_TILE_BYTES;
    return {start + lane * 16, start + 512 + lane};
  }
  DEVICE void advance(Cursor& cursor, int tiles) const {
    cursor.codes += tiles * MXFP4_TILE_BYTES;
    cursor.exponent += tiles * MXFP4_TILE_BYTES;
  }

  DEVICE Raw load(const Cursor& cursor, int groups) const {
    return {load_streaming_16(cursor.codes), cursor.exponent[groups * 16 - 512]};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    table.look_up_all(raw.codes, group.bytes);
    group.scale = mxfp4_scale(raw.exponent);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const {
    const u32 inputs[8] = {x.first.x, x.first.y, x.first.z, x.first.w, x.last.x, x.last.y, x.last.z, x.last.w};
    int dot = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) dot = dp4a_ss(w.bytes[i], inputs[i], dot);
    return sum + w.scale * (scale_of(x) * float(dot));
  }
};

DEVICE MXFP4 mxfp4_format(int inputs) {
  CodeTable table = {E2M1_BYTES};
  table.keep_apart(u32(inputs) >> 31);
  return {table, int(threadIdx.x % 32)};
}

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(50550500, COLUMNS))      \
      mxfp4_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                               \
    gemv<MXFP4, ROWS, COLUMNS, SPLIT>(mxfp4_format(inputs), GEMV_ARGUMENTS);                      \
  }                                                                                               \
  EXPORT_KERNEL_NAMED(mxfp4_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
