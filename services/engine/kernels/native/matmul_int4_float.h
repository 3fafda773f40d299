// 4-bit weights × float activations: Σ (scale × q + minimum) × x of a group is scale × Σ q x + minimum × Σ x.
//
// So a weight costs a mask, a conversion and a multiply-add, and no memory between them. A nibble is not shifted down: it
// is converted where it lies in its word, as q × 2^n, and multiplied with x × 2^-n, which is exact.
// The sum of a group is one chain in the order of the columns, groups are added up in their order: a row's result does
// not depend on the rows beside it.
#pragma once
#include <algorithm>
#include <utility>

#include "activations.h"

namespace floats {

constexpr int kColumnsOfWord = 8;
constexpr size_t kGroupsAhead = 8;  // prefetched: 2.5 kB

// Rows as they are multiplied with nibbles.
class NibbleRows {
 public:
  void prepare(FloatRows x, int row, int count, int groups) {
    // Of columns 8z to 8z + 7: nibbles lie at 0, 8, 16, 24, 4, 12, 20 and 28, the last of which is shifted down.
    constexpr float kFactors[2 * kColumnsOfWord] = {1, 0x1p-8f, 0x1p-16f, 0x1p-24f, 0x1p-4f, 0x1p-12f, 0x1p-20f, 1,
                                                    1, 0x1p-8f, 0x1p-16f, 0x1p-24f, 0x1p-4f, 0x1p-12f, 0x1p-20f, 1};
    const simd::Floats factors = simd::load(kFactors);
    groups_ = groups;
    values_.reserve(size_t(count) * groups * kGroup);
    sums_.reserve(size_t(count) * groups);
    for (int at = 0; at < count * groups; ++at) {
      const float* from = x.row(row + at / groups) + at % groups * kGroup;
      const simd::Floats a = simd::load(from), b = simd::load(from + 16);
      simd::store(values_.data() + size_t(at) * kGroup, a * factors);
      simd::store(values_.data() + size_t(at) * kGroup + 16, b * factors);
      sums_[at] = simd::sum(a + b);
    }
  }

  const float* values(int row) const { return values_.data() + size_t(row) * groups_ * kGroup; }
  const float* sums(int row) const { return sums_.data() + size_t(row) * groups_; }
  int groups() const { return groups_; }

 private:
  int groups_ = 0;
  Buffer<float> values_;  // [count, groups × 32]
  Buffer<float> sums_;    // [count, groups]
};

// Of 64 bytes of nibbles, those of column `kColumn` of 8: q × 2^n.
template <int kColumn>
inline simd::Floats column_at(const uint8_t* words) {
  return simd::nibbles_in_place<kColumn < 4 ? 8 * kColumn : 8 * (kColumn - 4) + 4>(words);
}

// Calls `column(constant)` for each of the columns of a word.
template <class Column, int... kColumns>
[[gnu::always_inline]] inline void each_column(Column column, std::integer_sequence<int, kColumns...>) {
  (column(std::integral_constant<int, kColumns>()), ...);
}

// sums: [M] of one block, which become part of the totals
template <int M>
inline void add_sums(const uint8_t* halves, const NibbleRows& x, int row, int group, const simd::Floats* sums,
                     simd::Floats* totals) {
  const simd::Floats scale = simd::load_half((const uint16_t*)halves);
  const simd::Floats minimum = simd::load_half((const uint16_t*)halves + kBlockRows);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    totals[m] = simd::fma(sums[m], scale, totals[m]);
    totals[m] = simd::fma(minimum, simd::splat(x.sums(row + m)[group]), totals[m]);
  }
}

// 16 outputs of each of the B blocks from `index` on, for M rows: out[b * M + m].
template <int M, int B>
[[gnu::noinline]] void multiply_nibbles(const PackedMatrix& w, int index, const NibbleRows& x, int row, simd::Floats* out) {
  constexpr size_t kSize = PackedMatrix::kInt4Block;
  const size_t groups = w.groups(), next = groups * kSize;
  const uint8_t* block = w.block(index, 0);
  const float* values[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) values[m] = x.values(row + m);
  simd::Floats totals[B * M];
#pragma GCC unroll 16
  for (int i = 0; i < B * M; ++i) totals[i] = simd::splat(0);
  for (size_t group = 0; group < groups; ++group, block += kSize) {
    // Beyond the end of these blocks come those after the B of them.
    const uint8_t* ahead = block + kGroupsAhead * kSize + (group + kGroupsAhead < groups ? 0 : (B - 1) * next);
    for (int b = 0; b < B; ++b)
      for (size_t line = 0; line < kSize; line += 64) simd::prefetch(ahead + b * next + line);
    simd::Floats sums[B * M];
#pragma GCC unroll 16
    for (int i = 0; i < B * M; ++i) sums[i] = simd::splat(0);
#pragma GCC unroll 4
    for (int z = 0; z < 4; ++z)
      each_column([&](auto column) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int b = 0; b < B; ++b) {
          const simd::Floats weights = column_at<column()>(block + b * next + 64 * z);
#pragma GCC unroll 8
          for (int m = 0; m < M; ++m)
            sums[b * M + m] = simd::fma(weights, simd::splat(values[m][group * kGroup + kColumnsOfWord * z + column()]),
                                        sums[b * M + m]);
        }
      }, std::make_integer_sequence<int, kColumnsOfWord>());
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b)
      add_sums<M>(block + b * next + 256, x, row, int(group), sums + b * M, totals + b * M);
  }
#pragma GCC unroll 16
  for (int i = 0; i < B * M; ++i) out[i] = totals[i];
}

// One block, converted once for many rows.
class UnpackedNibbles {
 public:
  void unpack(const PackedMatrix& w, int index) {
    block_ = w.block(index, 0);
    floats_.reserve(size_t(w.groups()) * kGroupFloats);
    for (int group = 0; group < w.groups(); ++group) {
      const uint8_t* from = w.block(index, group);
      float* to = floats_.data() + size_t(group) * kGroupFloats;
      for (int z = 0; z < 4; ++z, from += 64)
        each_column([&](auto column) { simd::store(to, column_at<column()>(from)), to += kBlockRows; },
                    std::make_integer_sequence<int, kColumnsOfWord>());
    }
  }

  // out: [M], of rows from `row` on
  template <int M>
  void multiply(const NibbleRows& x, int row, simd::Floats* out) const {
    const float *weights = floats_.data(), *values[M];
    const size_t groups = x.groups();
    simd::Floats totals[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) totals[m] = simd::splat(0), values[m] = x.values(row + m);
    for (size_t group = 0; group < groups; ++group, weights += kGroupFloats) {
      simd::Floats sums[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) sums[m] = simd::splat(0);
#pragma GCC unroll 4
      for (int column = 0; column < kGroup; ++column) {
        const simd::Floats sixteen = simd::load(weights + column * kBlockRows);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m)
          sums[m] = simd::fma(sixteen, simd::splat(values[m][group * kGroup + column]), sums[m]);
      }
      add_sums<M>(block_ + group * PackedMatrix::kInt4Block + 256, x, row, int(group), sums, totals);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) out[m] = totals[m];
  }

 private:
  static constexpr int kGroupFloats = kGroup * kBlockRows;
  const uint8_t* block_ = nullptr;
  Buffer<float> floats_;  // [columns, 16]
};

// Memory that one thread multiplies with.
struct NibbleScratch {
  NibbleRows rows;
  UnpackedNibbles unpacked[2];
};

// B blocks from `index` on for M rows or fewer from `row` on: out[b * count + m].
template <int M, int B>
inline void multiply_few(const PackedMatrix& w, int index, const NibbleRows& x, int row, int count, simd::Floats* out) {
  if constexpr (M > 1) {
    if (count < M) return multiply_few<M - 1, B>(w, index, x, row, count, out);
  }
  multiply_nibbles<M, B>(w, index, x, row, out);
}

// The same, from blocks that were unpacked.
template <int M>
inline void multiply_few(const UnpackedNibbles& block, const NibbleRows& x, int row, int count, simd::Floats* out) {
  if constexpr (M > 1) {
    if (count < M) return multiply_few<M - 1>(block, x, row, count, out);
  }
  block.multiply<M>(x, row, out);
}

// B blocks at a time, `kUnit` of which are emitted together: `emit(unit, row, out)`, out[b] being 16 outputs of its b-th.
// Units [index, end); gives the first that is not computed. num_rows <= M
template <int M, int B, int kUnit, class Emit>
inline int nibble_units(const PackedMatrix& w, const NibbleRows& x, int num_rows, int index, int end, Emit emit) {
  simd::Floats sums[B * M], out[kUnit];
  for (; kUnit * (end - index) >= B; index += B / kUnit) {
    multiply_few<M, B>(w, kUnit * index, x, 0, num_rows, sums);
    for (int unit = 0; unit < B / kUnit; ++unit)
      for (int row = 0; row < num_rows; ++row) {
        for (int b = 0; b < kUnit; ++b) out[b] = sums[(kUnit * unit + b) * num_rows + row];
        emit(index + unit, row, out);
      }
  }
  return index;
}

// Pairs of blocks [begin, end), one block at a time.
template <int M, class Emit>
inline void pair_by_blocks(const PackedMatrix& w, const NibbleRows& x, int num_rows, int begin, int end, Emit emit) {
  simd::Floats first[M], second[M], out[2];
  for (int pair = begin; pair < end; ++pair) {
    multiply_few<M, 1>(w, 2 * pair, x, 0, num_rows, first);
    multiply_few<M, 1>(w, 2 * pair + 1, x, 0, num_rows, second);
    for (int row = 0; row < num_rows; ++row) {
      out[0] = first[row], out[1] = second[row];
      emit(pair, row, out);
    }
  }
}

// Units [begin, end) of `kUnit` blocks each.
template <int kUnit, int kTile, class Emit>
inline void matmul_nibbles(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, NibbleScratch& scratch,
                           Emit emit) {
  scratch.rows.prepare(x, 0, num_rows, w.groups());
  if (num_rows <= kTile) {  // sums of some rows or some blocks: a processor needs several chains at once
    if (num_rows == 1) begin = nibble_units<1, 4, kUnit>(w, scratch.rows, num_rows, begin, end, emit);
    if (num_rows <= 2) begin = nibble_units<2, 2, kUnit>(w, scratch.rows, num_rows, begin, end, emit);
    if constexpr (kUnit == 1) nibble_units<kTile, 1, 1>(w, scratch.rows, num_rows, begin, end, emit);
    else if (begin < end) pair_by_blocks<kTile>(w, scratch.rows, num_rows, begin, end, emit);
    return;
  }
  simd::Floats tile[kUnit][kTile], out[kUnit];
  for (int unit = begin; unit < end; ++unit) {
    for (int b = 0; b < kUnit; ++b) scratch.unpacked[b].unpack(w, kUnit * unit + b);
    for (int row = 0; row < num_rows; row += kTile) {
      const int count = std::min(kTile, num_rows - row);
      for (int b = 0; b < kUnit; ++b) multiply_few<kTile>(scratch.unpacked[b], scratch.rows, row, count, tile[b]);
      for (int m = 0; m < count; ++m) {
        for (int b = 0; b < kUnit; ++b) out[b] = tile[b][m];
        emit(unit, row + m, out);
      }
    }
  }
}

}  // namespace floats
