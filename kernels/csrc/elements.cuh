// Numbers in memory as single, half or bfloat16 precision: the kernels compute in single.
#pragma once
#include "portable.cuh"

#define ELEMENT_F32 0
#define ELEMENT_F16 1
#define ELEMENT_BF16 2

DEVICE float half_of_type(u32 bits, int type) {
  return type == ELEMENT_F16 ? half_to_float(u16(bits)) : bf16_to_float(u16(bits));
}

// Four neighbours from `index` on, a multiple of four.
DEVICE float4 load_four(const void* x, size_t index, int type) {
  if (type == ELEMENT_F32) {
    const uint4 v = load_16(static_cast<const float*>(x) + index);
    return make_float4(bits_to_float(v.x), bits_to_float(v.y), bits_to_float(v.z), bits_to_float(v.w));
  }
  const uint2 v = load_streaming_8(static_cast<const u16*>(x) + index);
  return make_float4(half_of_type(v.x & 0xffff, type), half_of_type(v.x >> 16, type),
                     half_of_type(v.y & 0xffff, type), half_of_type(v.y >> 16, type));
}

DEVICE void store_one(void* y, size_t index, float value, int type) {
  if (type == ELEMENT_F32) static_cast<float*>(y)[index] = value;
  else static_cast<u16*>(y)[index] = type == ELEMENT_F16 ? float_to_half(value) : float_to_bf16(value);
}
