// Weights as floats × float activations, summed in float: bfloat16 weights, and quantized ones that are to be exact.
//
// 8-bit weights become the floats they stand for, of 4-bit ones see matmul_int4_float.h: nothing is rounded but the sums. An output is one chain of fused multiply-adds in the order of the columns, whatever the tile: so a row's result does
// not depend on which rows are computed beside it (batch invariance). A processor needs several chains at once, which
// come from other rows and, where rows are few, from other blocks of 16 outputs.
#pragma once
#include <algorithm>

#include "matmul_int4_float.h"

namespace floats {

#if defined(__AVX512F__)
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 5;  // ten registers of sums; with twelve, compilers spill
#endif
constexpr size_t kPrefetchBytes = 2048;

// One column of a pair, of 16 rows of weights, into the sums of M rows of activations.
template <int M>
inline void add(simd::Floats weights, const float* values, size_t stride, simd::Floats* sums) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) sums[m] = simd::fma(weights, simd::splat(values[m * stride]), sums[m]);
}

// A format has
//   multiply<M, B>(w, index, x, row, out): 16 outputs of each of the B blocks from `index` on, for M rows: out[b * M + m].

struct Bf16 {
  template <int M, int B>
  static void multiply(const PackedMatrix& w, int index, FloatRows x, int row, simd::Floats* out) {
    simd::Floats sums[B * M];
#pragma GCC unroll 16
    for (int i = 0; i < B * M; ++i) sums[i] = simd::splat(0);
    const uint8_t* block = w.block(index, 0);
    const size_t next = w.groups() * PackedMatrix::kBf16Block;
    const float* values = x.row(row);
    for (int group = 0; group < w.groups(); ++group, block += PackedMatrix::kBf16Block, values += kGroup)
#pragma GCC unroll 4
      for (int z = 0; z < kGroup / 2; ++z)
#pragma GCC unroll 4
        for (int b = 0; b < B; ++b) {
          const uint8_t* from = block + b * next + 64 * z;
          if (M == 1) simd::prefetch(from + kPrefetchBytes);
          // The barriers keep one column in registers at a time: there is no room for two beside the sums.
          asm volatile("" ::: "memory");
          add<M>(simd::load_bf16_first(from), values + 2 * z, x.stride, sums + b * M);
          asm volatile("" ::: "memory");
          add<M>(simd::load_bf16_second(from), values + 2 * z + 1, x.stride, sums + b * M);
        }
#pragma GCC unroll 16
    for (int i = 0; i < B * M; ++i) out[i] = sums[i];
  }
};

// Of one group of 16 rows of 8-bit weights, the floats that they stand for: out[column][row].
inline void unpack_int8(const uint8_t* block, float* out) {
  const simd::Floats scale = simd::load_half((const uint16_t*)(block + 512));
#pragma GCC unroll 8
  for (int z = 0; z < 8; ++z, out += 4 * kBlockRows) {
    const simd::Ints words = simd::load_words(block + 64 * z);
    simd::store(out, simd::bytes_at<0>(words) * scale);
    simd::store(out + kBlockRows, simd::bytes_at<8>(words) * scale);
    simd::store(out + 2 * kBlockRows, simd::bytes_at<16>(words) * scale);
    simd::store(out + 3 * kBlockRows, simd::bytes_at<24>(words) * scale);
  }
}

constexpr int kGroupFloats = kGroup * kBlockRows;

// Unpacked columns [0, count) of each of B blocks, `next` floats apart, into the sums of M rows: sums[b * M + m].
template <int M, int B>
inline void add_columns(const float* weights, size_t next, const float* values, size_t stride, int count,
                        simd::Floats* sums) {
#pragma GCC unroll 4
  for (int column = 0; column < count; ++column)
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b)
      add<M>(simd::load(weights + b * next + column * kBlockRows), values + column, stride, sums + b * M);
}

// 8-bit weights, a group at a time.
struct Int8 {
  template <int M, int B>
  static void multiply(const PackedMatrix& w, int index, FloatRows x, int row, simd::Floats* out) {
    simd::Floats sums[B * M];
#pragma GCC unroll 16
    for (int i = 0; i < B * M; ++i) sums[i] = simd::splat(0);
    alignas(64) float weights[B * kGroupFloats];
    const size_t size = w.block_bytes(), next = w.groups() * size;
    const uint8_t* block = w.block(index, 0);
    const float* values = x.row(row);
    for (int group = 0; group < w.groups(); ++group, block += size, values += kGroup) {
      for (int b = 0; b < B; ++b) {
        if (M == 1)
          for (size_t line = 0; line < size; line += 64) simd::prefetch(block + b * next + kPrefetchBytes + line);
        unpack_int8(block + b * next, weights + b * kGroupFloats);
      }
      add_columns<M, B>(weights, kGroupFloats, values, x.stride, kGroup, sums);
    }
#pragma GCC unroll 16
    for (int i = 0; i < B * M; ++i) out[i] = sums[i];
  }
};

// One block of 8-bit weights, unpacked once for many rows.
class Unpacked {
 public:
  void unpack(const PackedMatrix& w, int index) {
    columns_ = w.groups() * kGroup;
    floats_.reserve(size_t(columns_) * kBlockRows);
    for (int group = 0; group < w.groups(); ++group)
      unpack_int8(w.block(index, group), floats_.data() + size_t(group) * kGroupFloats);
  }

  // out: [count], of rows from `row` on; count ≤ kTileRows
  template <int M = kTileRows>
  void multiply(FloatRows x, int row, int count, simd::Floats* out) const {
    if constexpr (M > 1) {
      if (count < M) return multiply<M - 1>(x, row, count, out);
    }
    simd::Floats sums[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) sums[m] = simd::splat(0);
    add_columns<M, 1>(floats_.data(), 0, x.row(row), x.stride, columns_, sums);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) out[m] = sums[m];
  }

 private:
  int columns_ = 0;
  Buffer<float> floats_;  // [columns, 16]
};

// The same for a number of rows known at run time, at most M.
template <class Format, int B, int M = kTileRows>
inline void multiply_rows(const PackedMatrix& w, int index, FloatRows x, int row, int count, simd::Floats* out) {
  if constexpr (M == 1) {
    Format::template multiply<1, B>(w, index, x, row, out);
  } else {
    count == M ? Format::template multiply<M, B>(w, index, x, row, out)
               : multiply_rows<Format, B, M - 1>(w, index, x, row, count, out);
  }
}

// All of `num_rows` rows, B blocks at a time while as many are left; gives the first block not computed.
template <class Format, int M, int B, class Emit>
inline int matmul_blocks(const PackedMatrix& w, FloatRows x, int num_rows, int index, int end, Emit emit) {
  simd::Floats out[B * M];
  for (; index + B <= end; index += B)
    for (int row = 0; row < num_rows; row += M) {
      const int count = std::min(M, num_rows - row);
      multiply_rows<Format, B, M>(w, index, x, row, count, out);
      for (int b = 0; b < B; ++b)
        for (int m = 0; m < count; ++m) emit(index + b, row + m, out[b * count + m]);
    }
  return index;
}

template <class Format, class Emit>
inline void matmul(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, Emit emit) {
  if (num_rows == 1) begin = matmul_blocks<Format, 1, 4>(w, x, num_rows, begin, end, emit);
  if (num_rows <= 2) begin = matmul_blocks<Format, 2, 2>(w, x, num_rows, begin, end, emit);
  matmul_blocks<Format, kTileRows, 1>(w, x, num_rows, begin, end, emit);
}

template <class Format, class Emit>
inline void matmul_pairs(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, Emit emit) {
  simd::Floats out[2 * kTileRows];
  for (int pair = begin; pair < end; ++pair)
    for (int row = 0; row < num_rows; row += kTileRows) {
      const int count = std::min(kTileRows, num_rows - row);
      if (count <= 2) {
        multiply_rows<Format, 2, 2>(w, 2 * pair, x, row, count, out);
      } else {
        multiply_rows<Format, 1>(w, 2 * pair, x, row, count, out);
        multiply_rows<Format, 1>(w, 2 * pair + 1, x, row, count, out + count);
      }
      for (int m = 0; m < count; ++m) emit(pair, row + m, out[m], out[count + m]);
    }
}

// `kBlocks` row blocks from `kBlocks × index` on, unpacked once: `emit(row, out)`, out[b] being 16 outputs of the b-th.
template <int kBlocks, class Emit>
inline void matmul_unpacked(const PackedMatrix& w, int index, FloatRows x, int num_rows, Unpacked* unpacked, Emit emit) {
  simd::Floats tile[kBlocks][kTileRows], out[kBlocks];
  for (int b = 0; b < kBlocks; ++b) unpacked[b].unpack(w, kBlocks * index + b);
  for (int row = 0; row < num_rows; row += kTileRows) {
    const int count = std::min(kTileRows, num_rows - row);
    for (int b = 0; b < kBlocks; ++b) unpacked[b].multiply(x, row, count, tile[b]);
    for (int m = 0; m < count; ++m) {
      for (int b = 0; b < kBlocks; ++b) out[b] = tile[b][m];
      emit(row + m, out);
    }
  }
}

// Memory that one thread multiplies with.
struct Scratch {
  NibbleScratch nibbles;
  Unpacked unpacked[2];
};

// Row blocks [begin, end) for rows [0, num_rows) of activations; `emit(block, row, 16 outputs)`.
template <class Emit>
inline void matmul(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, Scratch& scratch, Emit emit) {
  if (w.is_int4())
    return matmul_nibbles<1, kTileRows>(w, x, num_rows, begin, end, scratch.nibbles,
                                        [&](int block, int row, const simd::Floats* out) { emit(block, row, *out); });
  if (w.is_bf16()) return matmul<Bf16>(w, x, num_rows, begin, end, emit);
  if (num_rows <= kTileRows) return matmul<Int8>(w, x, num_rows, begin, end, emit);
  for (int block = begin; block < end; ++block)
    matmul_unpacked<1>(w, block, x, num_rows, scratch.unpacked,
                       [&](int row, const simd::Floats* out) { emit(block, row, *out); });
}

// Pairs [begin, end) of row blocks: `emit(pair, row, 16 outputs of the first, 16 of the second)`.
template <class Emit>
inline void matmul_pairs(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, Scratch& scratch,
                         Emit emit) {
  if (w.is_int4())
    return matmul_nibbles<2, kTileRows>(w, x, num_rows, begin, end, scratch.nibbles,
                                        [&](int pair, int row, const simd::Floats* out) { emit(pair, row, out[0], out[1]); });
  if (w.is_bf16()) return matmul_pairs<Bf16>(w, x, num_rows, begin, end, emit);
  if (num_rows <= kTileRows) return matmul_pairs<Int8>(w, x, num_rows, begin, end, emit);
  for (int pair = begin; pair < end; ++pair)
    matmul_unpacked<2>(w, pair, x, num_rows, scratch.unpacked,
                       [&](int row, const simd::Floats* out) { emit(pair, row, out[0], out[1]); });
}

}  // namespace floats
