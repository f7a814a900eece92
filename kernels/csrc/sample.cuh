// Draws one token of each row of logits, by the parameters of each row.
//
// Every block scans some groups of 64 neighbouring tokens for their largest logit and their share of
// chances; the last block of a row then draws. Since at least k groups have a logit that is not below
// the k-th largest group's, the k likeliest tokens are in the k groups with the largest ones, and
// hardly anything has to be read twice.
#pragma once
#include "row_search.cuh"

#define GROUPS_AT_ONCE 4
#define FIRST_GROUPS 128  // with which a search for top_p alone begins

// What is kept of each row between scan and draw.
struct RowSums {
  u32* keys;    // of each group's largest logit; 0 where nothing can come
  u32* masses;  // floats: chances of a group where its likeliest token has 1
};

// Draws along the vocabulary need chances at the temperature; top_p comes before it.
DEVICE Scale scan_scale(const SampleRow& asked) {
  if (asked.mode == BY_PLACE) return {asked.scale_high, asked.scale_low};
  return {1.44269502162933349609375f, 1.92596299112661746887e-8f};
}

// Chances, beside its likeliest token, of a group whose lane l has places l and 32 + l.
DEVICE u64 group_chances(const u32 (&keys)[2], u32 largest, u32 least, Scale scale) {
  u32 chances[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const u32 key = keys[half];
    chances[half] = key && key >= least ? u32(fixed_point(power_below(key, largest, scale), GROUP_BITS)) : 0;
  }
  const u32 upper = sum_of_lanes((chances[0] >> 16) + (chances[1] >> 16));
  return (u64(upper) << 16) + sum_of_lanes((chances[0] & 0xffff) + (chances[1] & 0xffff));
}

DEVICE void scan_groups(const LogitRow& row, const SampleRow& asked, RowSums sums, int groups) {
  const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  const int step = gridDim.x * warps * GROUPS_AT_ONCE;
  const bool needs_masses = asked.mode == BY_PLACE || (asked.mode == BY_RANK && !asked.top_k);
  const Scale scale = scan_scale(asked);
#pragma unroll 1
  for (int first = (blockIdx.x * warps + (threadIdx.x >> 5)) * GROUPS_AT_ONCE; first < groups; first += step) {
    u32 keys[GROUPS_AT_ONCE][2];
#pragma unroll
    for (int i = 0; i < GROUPS_AT_ONCE; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) keys[i][half] = row.key((first + i) * GROUP + half * 32 + lane);
#pragma unroll
    for (int i = 0; i < GROUPS_AT_ONCE; ++i) {
      if (first + i >= groups) break;
      const u32 largest = largest_of_lanes(keys[i][0] > keys[i][1] ? keys[i][0] : keys[i][1]);
      float mass = 0.f;
      if (needs_masses) mass = float(group_chances(keys[i], largest, 1, scale)) * 0x1p-31f;
      if (lane == 0) {
        sums.keys[first + i] = largest;
        sums.masses[first + i] = float_to_bits(mass);
      }
    }
  }
}

// Whether this block is the row's last, for which all others have written. The counter is zero again
// for the next launch.
DEVICE bool is_last_of_row(u32* arrived, u64* board) {
  __syncthreads();
  if (threadIdx.x == 0) {
    board[0] = count_in_memory(arrived, gridDim.x - 1);
    __threadfence();
  }
  __syncthreads();
  return board[0] == gridDim.x - 1;
}

// Of the groups in which something can come: the largest, by key and number, the smallest's key, and
// how many there are.
struct RowFacts {
  u64 best, possible;
  u32 lowest;
};

DEVICE RowFacts gather_facts(const RowSearch& search, u32* group_keys, RowSums sums) {
  RowFacts facts = {0, 0, ~0u};
  u32 count = 0;
#pragma unroll 4
  for (int group = threadIdx.x; group < search.groups; group += blockDim.x) {
    const u32 key = group_keys[group] = load_fresh(sums.keys + group);
    if (!key) continue;
    const u64 rank = rank_of(key, group);
    facts.best = rank > facts.best ? rank : facts.best;
    facts.lowest = key < facts.lowest ? key : facts.lowest;
    ++count;
  }
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) {
    const u64 other = __shfl_xor_sync(EVERY_LANE, facts.best, offset);
    facts.best = other > facts.best ? other : facts.best;
  }
  facts.lowest = ~largest_of_lanes(~facts.lowest);
  count = sum_of_lanes(count);
  u64* const own = search.memory.board + 4 + 2 * search.warp();
  if (search.lane() == 0) own[0] = facts.best, own[1] = u64(facts.lowest) << 32 | count;
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < search.warps(); ++i) {
    const u64 best = search.memory.board[4 + 2 * i], both = search.memory.board[5 + 2 * i];
    facts.best = best > facts.best ? best : facts.best;
    facts.lowest = u32(both >> 32) < facts.lowest ? u32(both >> 32) : facts.lowest;
    facts.possible += u32(both);
  }
  return facts;
}

// A group's chances beside the row's likeliest token, in units of 2^-CHANCE_BITS.
DEVICE u64 chances_of_group(const RowSearch& search, RowSums sums, int group, Scale scale) {
  const u32 key = search.group_keys[group];
  if (!key) return 0;
  Power power = power_below(key, search.peak, scale);
  power.mantissa = rounded_product(power.mantissa, bits_to_float(load_fresh(sums.masses + group)));
  return fixed_point(power, CHANCE_BITS);
}

DEVICE u64 chances_of_row(const RowSearch& search, RowSums sums, Scale scale) {
  u64 own = 0;
#pragma unroll 1
  for (int group = threadIdx.x; group < search.groups; group += blockDim.x)
    own += chances_of_group(search, sums, group, scale);
  return search.sum(own);
}

// The key below which min_p leaves tokens out.
DEVICE u32 least_key(const SampleRow& asked, u32 peak) {
  const double least = double(logit_of(peak)) + asked.log_min_p;
  const float nearest = float(least);
  const u32 key = key_of(nearest);
  return key + (key && double(nearest) < least ? 1 : 0);
}

// The first place of a group that has this key.
DEVICE int first_with_key(const RowSearch& search, int group, u32 key) {
  const int place = group * GROUP + search.lane();
  const u32 first = __ballot_sync(EVERY_LANE, search.row.key(place) == key);
  const u32 second = __ballot_sync(EVERY_LANE, search.row.key(place + 32) == key);
  return group * GROUP + (first ? lowest_one(first) : 32 + lowest_one(second));
}

// Leaves what min_p does not allow out of the groups' sums.
DEVICE void leave_out(const RowSearch& search, RowSums sums, u32 least, Scale scale) {
#pragma unroll 1
  for (int first = search.warp() * 32; first < search.groups; first += blockDim.x) {
    const int own = first + search.lane();
    const bool some = own < search.groups && search.group_keys[own] >= least;
    if (own < search.groups && !some) sums.masses[own] = 0;
#pragma unroll 1
    for (u32 hits = __ballot_sync(EVERY_LANE, some); hits; hits &= hits - 1) {
      const int group = first + lowest_one(hits), place = group * GROUP + search.lane();
      const u32 keys[2] = {search.row.key(place), search.row.key(place + 32)};
      const float mass = float(group_chances(keys, search.group_keys[group], least, scale)) * 0x1p-31f;
      if (search.lane() == 0) sums.masses[group] = float_to_bits(mass);
    }
  }
  __syncthreads();
}

// Of a warp: the place in a group with which chances reach `target` of the `total` that the group has.
DEVICE int draw_in_group(const RowSearch& search, int group, u32 least, Scale scale, u64 target, u64 total) {
  const int place = group * GROUP + 2 * search.lane();
  const u32 keys[2] = {search.row.key(place), search.row.key(place + 1)};
  u64 own[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    own[i] = keys[i] && keys[i] >= least
                 ? fixed_point(power_below(keys[i], search.group_keys[group], scale), GROUP_BITS)
                 : 0;
  const u64 until = sum_up_to_lane(own[0] + own[1]);
  // What the group has is known more exactly now than when it was chosen.
  const u64 all = __shfl_sync(EVERY_LANE, until, 31);
  u64 goal = u64(rounded_product(float(target) / float(total), float(all)));
  goal = goal < 1 ? 1 : goal > all ? all : goal;
  const int lane = lowest_one(__ballot_sync(EVERY_LANE, until >= goal));
  const int second = __shfl_sync(EVERY_LANE, int(until - own[1] < goal), lane);
  return group * GROUP + 2 * lane + second;
}

// A draw along the vocabulary, among all that min_p leaves.
DEVICE int draw_by_place(const RowSearch& search, RowSums sums, const SampleRow& asked, u64 share) {
  const Scale scale = scan_scale(asked);
  const u32 least = least_key(asked, search.peak);
  if (least) leave_out(search, sums, least, scale);
  const int each = (search.groups + blockDim.x - 1) / blockDim.x;
  const int begin = threadIdx.x * each, end = min(begin + each, search.groups);
  u64 own = 0;
#pragma unroll 1
  for (int group = begin; group < end; ++group) own += chances_of_group(search, sums, group, scale);
  const u64 until = sum_up_to_lane(own);
  const u64 target = share_of(search.sum(own), share);
  u64 before = until - own;
  for (int i = 0; i < search.warp(); ++i) before += search.memory.board[4 + i];  // what the sum left there
  if (before < target && target <= before + own) {
    int group = begin;
    u64 chances = chances_of_group(search, sums, group, scale);
    for (; before + chances < target; chances = chances_of_group(search, sums, ++group, scale)) before += chances;
    search.memory.board[0] = group, search.memory.board[1] = target - before, search.memory.board[2] = chances;
  }
  __syncthreads();
  return draw_in_group(search, int(search.memory.board[0]), least, scale, search.memory.board[1], search.memory.board[2]);
}

// A draw along the order of logits, among what top_k, top_p and min_p leave: each of them leaves what
// comes before some rank. `low` is the rank of the last that is left so far.
//
// The k likeliest are in the k groups with the largest logits. With top_p alone, groups are added
// until they have enough. The steps share one search: nothing else of the program is large.
DEVICE int draw_by_rank(const RowSearch& search, RowSums sums, const SampleRow& asked, u64 share, const RowFacts& facts) {
  enum { SOME_GROUPS, TOP_K, TOP_P, DRAW };
  const Scale plain = scan_scale(asked), scaled = {asked.scale_high, asked.scale_low};
  const u64 top_k = asked.top_k;
  const bool by_mass = asked.top_p < 1ull << 53;
  const u32 least = least_key(asked, search.peak);
  // What top_p is a share of is what top_k leaves: min_p must not cut that before.
  const u32 floor = least && !(by_mass && top_k) ? least : 1;
  u64 limit = by_mass && !top_k ? share_of(chances_of_row(search, sums, plain), asked.top_p) : 0;
  u64 groups = top_k ? top_k : by_mass ? FIRST_GROUPS : facts.possible;
  u64 low = 0;
  Source source = GROUPS;
#pragma unroll 1
  for (int step = SOME_GROUPS;;) {
    const Measure measure = {step <= TOP_K, step == TOP_P ? plain : scaled};
    u64 target = top_k, mass = 0;
    bool found = step == TOP_K && (!top_k || search.found() <= top_k);
    if (step == SOME_GROUPS) {
      source = GROUPS;
      low = rank_of(facts.lowest, LAST_PLACE);
      target = groups;
      found = groups >= facts.possible;
    } else if (step >= TOP_P) {
      mass = search.measure_from(source, low, measure);
      if (step == DRAW) target = share_of(mass, share);
      else target = limit = top_k ? share_of(mass, asked.top_p) : limit;
      found = step == TOP_P && mass <= limit;
    }
    const u64 rank = found ? low : search.reach(source, low, target, measure);
    if (step == DRAW) return int(place_of(rank));
    if (step == SOME_GROUPS) {
      const u32 key = found ? 1 : u32(rank >> PLACE_BITS);
      low = rank_of(key > floor ? key : floor, LAST_PLACE);
      source = search.gather(low);
    } else if (step == TOP_P && !top_k && mass < limit && u32(low >> PLACE_BITS) > floor) {
      groups *= 4;
      step = SOME_GROUPS;
      continue;
    } else {
      low = rank;
    }
    step += step == TOP_K && !by_mass ? 2 : 1;
    if (step == DRAW && low < rank_of(least, LAST_PLACE)) low = rank_of(least, LAST_PLACE);
  }
}

// Grid: parts of a row, rows. `room` has two words for each group of each row, `arrived` (rows) zeros.
extern "C" __global__ void __launch_bounds__(MAX_WARPS * 32) sample_rows(
    const float* logits, const SampleRow* __restrict__ rows, const u32* __restrict__ masks,
    u32* room, u32* arrived, long long* tokens, int vocab, int stride) {
  DYNAMIC_SHARED(u32, group_keys);
  SHARED_ARRAY(u64, gathered, SEARCH_ROOM);
  SHARED_ARRAY(SearchBin, bins, SEARCH_BINS);
  SHARED_ARRAY(u64, first, SEARCH_BINS);
  SHARED_ARRAY(u64, board, 4 + 2 * MAX_WARPS);
  wait_for_previous_kernel();
  const SampleRow asked = rows[blockIdx.y];
  const int groups = (vocab + GROUP - 1) / GROUP;
  const u32* const mask = asked.mask < 0 ? nullptr : masks + size_t(asked.mask) * ((vocab + 31) / 32);
  const LogitRow row = {logits + size_t(asked.row) * stride, mask, vocab};
  u32* const own_room = room + size_t(blockIdx.y) * 2 * groups;
  const RowSums sums = {own_room, own_room + groups};
  scan_groups(row, asked, sums, groups);
  let_next_kernel_begin();
  if (!is_last_of_row(arrived + blockIdx.y, board)) return;

  RowSearch search = {row, group_keys, groups, {gathered, bins, first, board}, 0};
  const RowFacts facts = gather_facts(search, group_keys, sums);
  search.peak = u32(facts.best >> PLACE_BITS);
  int token = 0;
  if (search.peak) {
    const u64 share = random_share(asked.seed, asked.place);
    if (asked.mode == LIKELIEST) token = first_with_key(search, int(place_of(facts.best)), search.peak);
    else if (asked.mode == BY_PLACE) token = draw_by_place(search, sums, asked, share);
    else token = draw_by_rank(search, sums, asked, share, facts);
  }
  if (threadIdx.x == 0) tokens[asked.row] = token;
}
EXPORT_KERNEL(sample_rows)
