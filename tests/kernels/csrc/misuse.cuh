// Kernels with the mistakes that the shim has to find, and one without.
#include "portable.cuh"

extern "C" __global__ void reverse(const int* x, int* y) {
  SHARED_ARRAY(int, all, 128);
  all[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = all[127 - threadIdx.x];
}
EXPORT_KERNEL(reverse)

extern "C" __global__ void reverse_without_barrier(const int* x, int* y) {
  SHARED_ARRAY(int, all, 128);
  all[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = all[127 - threadIdx.x];
}
EXPORT_KERNEL(reverse_without_barrier)

extern "C" __global__ void reverse_without_waiting(const u32* x, u32* y) {
  SHARED_ARRAY(u32, all, 128);
  copy_async_16(all + threadIdx.x * 4, x + threadIdx.x * 4);
  commit_copies();
  __syncwarp();
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = all[threadIdx.x * 4 + i];
}
EXPORT_KERNEL(reverse_without_waiting)

extern "C" __global__ void reverse_with_shuffle(const int* x, int* y) {
  SHARED_ARRAY(int, all, 32);
  all[threadIdx.x] = x[threadIdx.x];
  __shfl_sync(EVERY_LANE, 0, 0);  // orders no memory accesses
  y[threadIdx.x] = all[31 - threadIdx.x];
}
EXPORT_KERNEL(reverse_with_shuffle)

// Copies over what other lanes may still read.
extern "C" __global__ void copy_too_early(const u32* x, u32* y) {
  SHARED_ARRAY(u32, all, 128);
  all[threadIdx.x] = threadIdx.x;
  __syncwarp();
  y[threadIdx.x] = all[31 - threadIdx.x];
  copy_async_16(all + threadIdx.x * 4, x + threadIdx.x * 4);
  commit_copies();
  __syncwarp();
  wait_for_copies<0>();
}
EXPORT_KERNEL(copy_too_early)

// The last block adds what all blocks stored.
template <bool FENCED>
DEVICE void sum_of_blocks(u32* stored, u32* count, u32* sum) {
  stored[blockIdx.x] = blockIdx.x;
  const u32 before = count_in_memory(count, gridDim.x - 1);
  if (FENCED) __threadfence();
  if (before != gridDim.x - 1) return;
  for (u32 i = 0; i < gridDim.x; ++i) *sum += load_fresh(stored + i);
}
extern "C" __global__ void sum_with_fence(u32* stored, u32* count, u32* sum) {
  sum_of_blocks<true>(stored, count, sum);
}
EXPORT_KERNEL(sum_with_fence)
extern "C" __global__ void sum_without_fence(u32* stored, u32* count, u32* sum) {
  sum_of_blocks<false>(stored, count, sum);
}
EXPORT_KERNEL(sum_without_fence)

// One lane counts for all, and a shuffle tells them: it does not order what the other blocks stored.
template <bool ORDERED>
DEVICE void sum_by_warps(u32* stored, u32* count, u32* sum) {
  stored[blockIdx.x * 32 + threadIdx.x] = threadIdx.x;
  __syncwarp();
  u32 before = 0;
  if (threadIdx.x == 0) before = count_in_memory(count, gridDim.x - 1);
  if (__shfl_sync(EVERY_LANE, before, 0) != gridDim.x - 1) return;
  if (ORDERED) __syncwarp();
  __threadfence();
  if (threadIdx.x == 31)
    for (u32 i = 0; i < gridDim.x * 32; ++i) *sum += load_fresh(stored + i);
}
extern "C" __global__ void sum_by_ordered_warps(u32* stored, u32* count, u32* sum) {
  sum_by_warps<true>(stored, count, sum);
}
EXPORT_KERNEL(sum_by_ordered_warps)
extern "C" __global__ void sum_by_warps_with_shuffle(u32* stored, u32* count, u32* sum) {
  sum_by_warps<false>(stored, count, sum);
}
EXPORT_KERNEL(sum_by_warps_with_shuffle)

extern "C" __global__ void shuffle_in_a_branch(int* y) {
  int value = threadIdx.x;
  if (value < 7) value = __shfl_xor_sync(EVERY_LANE, value, 1);
  else __syncthreads();
  y[threadIdx.x] = value;
}
EXPORT_KERNEL(shuffle_in_a_branch)

extern "C" __global__ void different_operations(int* y) {
  int value = threadIdx.x;
  if (value < 7) value = __shfl_xor_sync(EVERY_LANE, value, 1);
  else __syncwarp();
  y[threadIdx.x] = value;
}
EXPORT_KERNEL(different_operations)

extern "C" __global__ void one_barrier_too_few(int* y) {
  if (threadIdx.x >= 64) __syncthreads();
  __syncthreads();
  if (threadIdx.x < 32) __syncwarp(0xffff);
  y[threadIdx.x] = 1;
}
EXPORT_KERNEL(one_barrier_too_few)

extern "C" __global__ void lanes_that_left(float* y) {
  if (threadIdx.x >= 24) return;
  const float value = __shfl_xor_sync(EVERY_LANE, float(threadIdx.x), 8);
  y[threadIdx.x] = value;
}
EXPORT_KERNEL(lanes_that_left)

extern "C" __global__ void half_warps(int* y) {
  const u32 mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  int value = threadIdx.x;
  if (threadIdx.x < 16) value = __shfl_xor_sync(mask, value, 1);
  else for (int i = 0; i < 3; ++i) value = __shfl_xor_sync(mask, value, 1);
  y[threadIdx.x] = value;
}
EXPORT_KERNEL(half_warps)

extern "C" __global__ void past_the_end(const u32* x, u32* y) { y[threadIdx.x] = load_16(x + threadIdx.x * 4).w; }
EXPORT_KERNEL(past_the_end)

extern "C" __global__ void past_shared_memory(const u32* x, u32* y) {
  SHARED_ARRAY(u32, all, 32);
  all[threadIdx.x + 1] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = all[threadIdx.x];
}
EXPORT_KERNEL(past_shared_memory)

extern "C" __global__ void count(int* total, float* sum) {
  atomicAdd(total, 1);
  atomicAdd(sum, 0.5f);
}
EXPORT_KERNEL(count)

extern "C" __global__ void indices(const u32* wanted, int* y) {
  DYNAMIC_SHARED(u32, room);
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  room[thread] = *wanted;
  y[block * 24 + thread] = int(room[thread]) + 100 * block + thread;
}
EXPORT_KERNEL(indices)
