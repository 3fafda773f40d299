// Low-rank additions to a layer's linear operations: y += scale × B(A x), with the adapter that each row names.
//
// Both matrices lie so that 16 outputs are computed at once, in float32:
//   A  [blocks of 16 ranks][columns][16]
//   B  [blocks of 16 rows][ranks rounded up to 16][16]
// Sums run over columns and over ranks in a fixed order, four at once, since each addition waits for the last; for each
// row alone, so a row does not depend on the rows beside it. Rows without an adapter are not touched.
#pragma once
#include <array>
#include <vector>

#include "kernels.h"
#include "simd.h"

enum Target { kQ, kK, kV, kOutput, kGate, kUp, kDown, kNumTargets };  // as sm_lora numbers them

constexpr int kLanes = 16;
constexpr int kMaxRanks = SM_MAX_RANK;
constexpr int kMaxTogether = 3;  // targets that read the same input: q, k and v

class LoraPart {
 public:
  LoraPart() = default;
  // a: [rank, cols]; b: [rows, rank]; rows: a multiple of 16
  LoraPart(const sm_lora& from, int rows, int cols)
      : cols_(cols), ranks_((from.rank + kLanes - 1) / kLanes * kLanes), scale_(from.scale) {
    a_.resize(size_t(ranks_) * cols);
    b_.resize(size_t(rows) * ranks_);
    for (int rank = 0; rank < from.rank; ++rank) {
      for (int col = 0; col < cols; ++col)
        a_[(size_t(rank / kLanes) * cols + col) * kLanes + rank % kLanes] = from.a[size_t(rank) * cols + col];
      for (int row = 0; row < rows; ++row)
        b_[(size_t(row / kLanes) * ranks_ + rank) * kLanes + row % kLanes] = from.b[size_t(row) * from.rank + rank];
    }
  }

  bool is_empty() const { return ranks_ == 0; }
  int num_blocks() const { return ranks_ / kLanes; }

  // 16 elements of scale × A x; x: [cols]
  void shrink(const float* x, int block, float* out) const {
    const float* a = a_.data() + size_t(block) * cols_ * kLanes;
    simd::store(out + block * kLanes, dot(x, a, cols_) * simd::splat(scale_));
  }

  // 16 elements of B shrunk; shrunk: [ranks]
  simd::Floats expand(const float* shrunk, int block) const {
    return dot(shrunk, b_.data() + size_t(block) * ranks_ * kLanes, ranks_);
  }

 private:
  // x: [count], a multiple of 4; m: [count][16]
  static simd::Floats dot(const float* x, const float* m, int count) {
    simd::Floats sums[4] = {simd::splat(0), simd::splat(0), simd::splat(0), simd::splat(0)};
    for (int at = 0; at < count; at += 4)
      for (int i = 0; i < 4; ++i)
        sums[i] = simd::fma(simd::splat(x[at + i]), simd::load(m + size_t(at + i) * kLanes), sums[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  int cols_ = 0, ranks_ = 0;
  float scale_ = 0;
  std::vector<float> a_, b_;
};

// All adapters, and what the rows of a step have shrunk to for the operation that comes next.
class Adapters {
 public:
  using Layer = std::array<LoraPart, kNumTargets>;

  // `adapter` becomes `layers`, one for each layer, or nothing where they are empty.
  void set(int adapter, std::vector<Layer> layers) { adapters_[adapter] = std::move(layers); }

  // rows: [num_rows] each row's adapter or −1; or null
  void begin(const int32_t* rows, int num_rows) {
    rows_ = nullptr;
    for (int row = 0; rows != nullptr && row < num_rows; ++row)
      if (rows[row] >= 0) rows_ = rows;
    num_rows_ = num_rows;
    if (rows_ != nullptr) shrunk_.resize(size_t(num_rows) * kMaxTogether * kMaxRanks);
  }

  bool are_used() const { return rows_ != nullptr; }
  bool has(int row) const { return rows_ != nullptr && rows_[row] >= 0; }

  // This thread's share of scale × A x for the targets [first, first + count), which read the same x: [num_rows, stride]
  void shrink(int layer, int first, int count, const float* x, size_t stride, int thread, int num_threads) {
    int task = 0;
    for (int row = 0; row < num_rows_; ++row)
      for (int target = first; has(row) && target < first + count; ++target) {
        const LoraPart* part = part_of(row, layer, target);
        for (int block = 0; part != nullptr && block < part->num_blocks(); ++block)
          if (task++ % num_threads == thread) part->shrink(x + row * stride, block, shrunk(row, target - first));
      }
  }

  // y, 16 outputs of the target `first + offset`, with what the row's adapter adds to them.
  simd::Floats added(simd::Floats y, int layer, int first, int offset, int row, int block) const {
    if (!has(row)) return y;
    const LoraPart* part = part_of(row, layer, first + offset);
    return part == nullptr ? y : y + part->expand(shrunk(row, offset), block);
  }

 private:
  // Null where the row's adapter leaves the target alone, or was taken away.
  const LoraPart* part_of(int row, int layer, int target) const {
    const std::vector<Layer>& layers = adapters_[rows_[row]];
    return layers.empty() || layers[layer][target].is_empty() ? nullptr : &layers[layer][target];
  }
  float* shrunk(int row, int offset) { return shrunk_.data() + (size_t(row) * kMaxTogether + offset) * kMaxRanks; }
  const float* shrunk(int row, int offset) const {
    return shrunk_.data() + (size_t(row) * kMaxTogether + offset) * kMaxRanks;
  }

  std::array<std::vector<Layer>, SM_MAX_ADAPTERS> adapters_;
  const int32_t* rows_ = nullptr;
  int num_rows_ = 0;
  std::vector<float> shrunk_;  // [rows, kMaxTogether, kMaxRanks]
};
