// Quantized weights × quantized activations.
//
// Within a group of 32 the products are summed exactly in integers; across groups in float, in the order of the groups.
// So a row's result does not depend on which rows are computed beside it (batch invariance).
#pragma once
#include <algorithm>

#include "matmul_float.h"
#include "matmul_quantized.h"

// Row block `index` for `count` rows of activations from `row` on, the first of a tile; count ≤ kTileRows.
template <int M = simd::kTileRows, class Ahead>
inline void multiply_tile(const PackedMatrix& w, int index, const Activations& x, int row, int count, Ahead ahead,
                          simd::Floats* out) {
  if constexpr (M > 1) {
    if (count < M) return multiply_tile<M - 1>(w, index, x, row, count, ahead, out);
  }
  if (w.is_int4()) multiply_int4<M>(w, index, x, row, ahead, out);
  else multiply_int8<M>(w, index, x, row, ahead, out);
}

// The same for a block that was unpacked.
template <int M = simd::kTileRows>
inline void multiply_tile(const Panel& panel, const Activations& x, int row, int count, Slice ahead, simd::Floats* out) {
  if constexpr (M > 1) {
    if (count < M) return multiply_tile<M - 1>(panel, x, row, count, ahead, out);
  }
  multiply_int4<M>(panel, x, row, ahead, out);
}

// One tile reads the weights at the speed of memory. Several multiply a block that is in the cache by then: each asks for
// a part of the blocks after `kBlocks` of them.
template <int kBlocks>
class Readahead {
 public:
  Readahead(const PackedMatrix& w, int index, int num_tiles)
      : block_(w.block(index, 0)),
        next_(w.block(index + kBlocks, 0)),
        size_(w.block_bytes()),
        row_bytes_(w.groups() * size_),
        part_((size_ + num_tiles * 64 - 1) / (num_tiles * 64) * 64) {}

  // For the b-th block.
  Stream stream(int b) const { return {block_ + b * row_bytes_, size_}; }

  // For the b-th block and a tile.
  Slice part(int b, int tile) const {
    const size_t groups = row_bytes_ / size_, done = tile * groups * part_;
    return {next_ + b * row_bytes_ + done, done < row_bytes_ ? part_ : 0};
  }

 private:
  const uint8_t *block_, *next_;
  size_t size_, row_bytes_;
  size_t part_;  // bytes for each group
};

// Memory that one thread multiplies with.
struct MatmulScratch {
  Panel panels[2];
  floats::Scratch floats;
};

// Unpacking a block takes as long as multiplying two rows, and saves a tenth for each row.
constexpr int kUnpackedTiles = 4;

// `kBlocks` row blocks from `kBlocks × index` on: `emit(row, out)`, out[b] being the 16 outputs of the b-th.
template <int kBlocks, class Emit>
inline void multiply_blocks(const PackedMatrix& w, int index, const Activations& x, int num_rows, MatmulScratch& scratch,
                            Emit emit) {
  constexpr int kTile = simd::kTileRows;
  const bool unpacks = num_rows > kUnpackedTiles * kTile && w.is_int4();
  const int num_tiles = (num_rows + kTile - 1) / kTile;
  const Readahead<kBlocks> ahead(w, kBlocks * index, num_tiles);
  if (unpacks)
    for (int b = 0; b < kBlocks; ++b) scratch.panels[b].unpack(w, kBlocks * index + b);
  simd::Floats tile[kBlocks][kTile], out[kBlocks];
  for (int row = 0; row < num_rows; row += kTile) {
    const int count = std::min(kTile, num_rows - row);
    for (int b = 0; b < kBlocks; ++b) {
      const int block = kBlocks * index + b;
      if (unpacks) multiply_tile(scratch.panels[b], x, row, count, ahead.part(b, row / kTile), tile[b]);
      else if (num_tiles == 1) multiply_tile(w, block, x, row, count, ahead.stream(b), tile[b]);
      else multiply_tile(w, block, x, row, count, ahead.part(b, row / kTile), tile[b]);
    }
    for (int m = 0; m < count; ++m) {
      for (int b = 0; b < kBlocks; ++b) out[b] = tile[b][m];
      emit(row + m, out);
    }
  }
}

// Row blocks [begin, end) for rows [0, num_rows) of activations: `emit(block, row, 16 outputs)`.
template <class Emit>
inline void matmul(const PackedMatrix& w, const Activations& x, int num_rows, int begin, int end, MatmulScratch& scratch,
                   Emit emit) {
  if (w.takes_floats()) return floats::matmul(w, x.floats, num_rows, begin, end, scratch.floats, emit);
  for (int block = begin; block < end; ++block)
    multiply_blocks<1>(w, block, x, num_rows, scratch, [&](int row, const simd::Floats* out) { emit(block, row, *out); });
}

// Pairs [begin, end) of row blocks: `emit(pair, row, 16 outputs of the first, 16 of the second)`.
template <class Emit>
inline void matmul_pairs(const PackedMatrix& w, const Activations& x, int num_rows, int begin, int end,
                         MatmulScratch& scratch, Emit emit) {
  if (w.takes_floats()) return floats::matmul_pairs(w, x.floats, num_rows, begin, end, scratch.floats, emit);
  for (int pair = begin; pair < end; ++pair)
    multiply_blocks<2>(w, pair, x, num_rows, scratch,
                       [&](int row, const simd::Floats* out) { emit(pair, row, out[0], out[1]); });
}
