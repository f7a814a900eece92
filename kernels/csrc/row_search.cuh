// One block looks for places in the order of a row's logits, without sorting them.
#pragma once
#include "sample_row.cuh"

#define GROUP 64           // neighbouring tokens of which the largest logit is known
#define SEARCH_BINS 256
#define SEARCH_ROOM 2048   // ranks that are kept in shared memory
#define MAX_WARPS 16

// What a search goes through: the largest logit of each group, the whole row, or the ranks that were
// gathered from it.
enum Source { GROUPS, ROW, GATHERED };

// What it adds up on its way: ranks, or their chances beside the likeliest one's.
struct Measure {
  bool counts;
  Scale scale;
};

struct SearchBin {
  u32 count, low, high;  // shared memory adds 64 bits only in a loop, 32 at once
};

struct SearchMemory {
  u64* gathered;    // SEARCH_ROOM
  SearchBin* bins;  // SEARCH_BINS each
  u64* first;       // the first rank that came to a bin, by one thread: its only one, if there is one
  u64* board;       // 4 + 2 · MAX_WARPS: what one thread tells the others
};

struct RowSearch {
  LogitRow row;
  const u32* group_keys;
  int groups;
  SearchMemory memory;
  u32 peak;  // largest key

  DEVICE static int lane() { return threadIdx.x & 31; }
  DEVICE static int warp() { return threadIdx.x >> 5; }
  DEVICE static int warps() { return blockDim.x >> 5; }

  // All of the row's ranks from `low` to `high`, each by one thread, which must not meet others in
  // `take`.
  template <class Take>
  DEVICE void for_each_of_row(u64 low, u64 high, Take take) const {
    const u32 least = u32(low >> PLACE_BITS);
    for (int first = warp() * 32; first < groups; first += blockDim.x) {
      const int own = first + lane();
      u32 hits = __ballot_sync(EVERY_LANE, own < groups && group_keys[own] >= least);
#pragma unroll 1
      for (; hits; hits &= hits - 1) {
        int place = (first + lowest_one(hits)) * GROUP + lane();
        u32 key = row.key(place), other = row.key(place + 32);
#pragma unroll 1
        for (int half = 0; half < 2; ++half, key = other, place += 32) {
          const u64 rank = rank_of(key, place);
          if (key && low <= rank && rank <= high) take(rank);
        }
      }
    }
  }

  template <class Take>
  DEVICE void for_each(Source source, u64 low, u64 high, Take take) const {
    if (source == ROW) return for_each_of_row(low, high, take);
    const int count = source == GROUPS ? groups : int(memory.board[3]);
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const u64 rank = source == GROUPS ? rank_of(group_keys[i], i) : memory.gathered[i];
      if (low <= rank && rank <= high) take(rank);
    }
  }

  DEVICE u64 measured(Measure measure, u64 rank) const {
    if (measure.counts) return 1;
    return fixed_point(power_below(u32(rank >> PLACE_BITS), peak, measure.scale), CHANCE_BITS);
  }

  // Over all threads.
  DEVICE u64 sum(u64 value) const {
    u64* const parts = memory.board + 4;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) value += __shfl_xor_sync(EVERY_LANE, value, offset);
    __syncthreads();  // the board may still be read
    if (lane() == 0) parts[warp()] = value;
    __syncthreads();
    value = 0;
#pragma unroll 1
    for (int i = 0; i < warps(); ++i) value += parts[i];
    return value;
  }

  // Of all ranks from `low` on.
  DEVICE u64 measure_from(Source source, u64 low, Measure measure) const {
    u64 total = 0;
    for_each(source, low, ~0ull, [&](u64 rank) { total += measured(measure, rank); });
    return sum(total);
  }

  // Keeps the ranks from `low` on in shared memory, if there is room; gives where to find them.
  DEVICE Source gather(u64 low) const {
    u32* const found = &memory.bins[0].count;
    __syncthreads();
    if (threadIdx.x == 0) *found = 0;
    __syncthreads();
    for_each_of_row(low, ~0ull, [&](u64 rank) {
      const u32 i = atomicAdd(found, 1u);
      if (i < SEARCH_ROOM) memory.gathered[i] = rank;
    });
    __syncthreads();
    if (threadIdx.x == 0) memory.board[3] = *found;
    __syncthreads();
    return memory.board[3] <= SEARCH_ROOM ? GATHERED : ROW;
  }

  // How many there were when `gather` looked, whether or not there was room.
  DEVICE u64 found() const { return memory.board[3]; }

  // Going down from the peak, the rank with which the sum of `measure` reaches `target`. Ranks below
  // `low` are not looked at, and those from it on must have as much together.
  DEVICE u64 reach(Source source, u64 low, u64 target, Measure measure) const {
    u64 high = rank_of(peak, 0);
#pragma unroll 1
    for (;;) {
      const int bits = 64 - leading_zeros((high - low) | 1), shift = bits > 8 ? bits - 8 : 0;
      __syncthreads();
      for (int i = threadIdx.x; i < SEARCH_BINS; i += blockDim.x) memory.bins[i] = {0, 0, 0};
      __syncthreads();
      for_each(source, low, high, [&](u64 rank) {
        const u32 bin = u32((rank - low) >> shift);
        if (add(memory.bins[bin], measured(measure, rank)) == 0) memory.first[bin] = rank;
      });
      __syncthreads();
      if (warp() == 0) choose_bin(target);
      __syncthreads();
      const u32 bin = u32(memory.board[1]);
      if (memory.board[1] >> 32 == 1) return memory.first[bin];
      target -= memory.board[0];
      low += u64(bin) << shift;
      const u64 end = low + ((1ull << shift) - 1);
      high = end < high ? end : high;
    }
  }

 private:
  // Gives how many there were before.
  DEVICE static u32 add(SearchBin& bin, u64 value) {
    const u32 low = u32(value), before = atomicAdd(&bin.low, low);
    const u32 high = u32(value >> 32) + (before + low < before ? 1 : 0);
    if (high) atomicAdd(&bin.high, high);
    return atomicAdd(&bin.count, 1u);
  }

  DEVICE u64 sum_of_bin(int bin) const { return u64(memory.bins[bin].high) << 32 | memory.bins[bin].low; }

  // Where sums from the last bin down reach the target: what comes before goes to board[0], the bin
  // and how many are in it to board[1].
  DEVICE void choose_bin(u64 target) const {
    constexpr int EACH = SEARCH_BINS / 32;
    int bin = SEARCH_BINS - 1 - lane() * EACH;
    u64 own = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i) own += sum_of_bin(bin - i);
    const u64 until = sum_up_to_lane(own);
    u64 before = until - own;
    if (target <= before || target > until) return;
#pragma unroll 1
    for (; before + sum_of_bin(bin) < target; --bin) before += sum_of_bin(bin);
    memory.board[0] = before;
    memory.board[1] = u64(memory.bins[bin].count) << 32 | u32(bin);
  }
};
