// Weights in the order in which the matmul reads them.
//
// A block holds 16 rows × 32 columns (a group, which shares one scale in each row):
//
//   int4   4 × 64 bytes of nibbles; byte 4r + j of the z-th: column 8z + j of row r low, column 8z + 4 + j high
//          16 half floats: scales; 16 half floats: minimums.   weight = scale × nibble + minimum
//   int8   8 × 64 bytes; byte 4r + j of the z-th: column 4z + j of row r, signed
//          16 half floats: scales.                             weight = scale × byte
//   bf16   16 × 64 bytes; half words 2r and 2r + 1 of the z-th: columns 2z and 2z + 1 of row r
//
// So 64 bytes of integers times 4 activations is one dot-product instruction for 16 rows. Blocks of the same rows follow each other.
#pragma once
#include <cstring>

#include "arena.h"
#include "simd.h"

constexpr int kBlockRows = 16;
constexpr int kGroup = 32;

enum class Format : int32_t { kQ4_0 = 0, kQ4_1 = 1, kQ8_0 = 2, kBf16 = 3 };

class PackedMatrix {
 public:
  // `rows` is rounded up to whole blocks; rows never filled stay zero.
  PackedMatrix(Format format, int rows, int cols)
      : format_(format), rows_((rows + kBlockRows - 1) / kBlockRows * kBlockRows), groups_(cols / kGroup) {
    data_ = Piece(size_t(num_blocks()) * groups_ * block_bytes());
  }

  // The same weights, to be multiplied with activations that are not quantized.
  PackedMatrix exact() const {
    PackedMatrix copy = *this;
    copy.exact_ = true;
    return copy;
  }

  // Take `num_rows` rows of GGUF blocks (of bfloat16 values for kBf16); 16 rows at a time go to row blocks `first`, `first + step`, …
  void fill(const uint8_t* raw, int num_rows, int first, int step) {
    const size_t row_bytes = size_t(groups_) * raw_bytes();
    for (int row = 0; row < num_rows; ++row)
      for (int group = 0; group < groups_; ++group) {
        uint8_t* block = data_.data() + at(first + row / kBlockRows * step, group);
        const uint8_t* from = raw + row * row_bytes + group * raw_bytes();
        put(block, row % kBlockRows, from);
      }
  }

  const uint8_t* block(int index, int group) const { return data_.data() + at(index, group); }
  bool is_int4() const { return format_ == Format::kQ4_0 || format_ == Format::kQ4_1; }
  bool is_bf16() const { return format_ == Format::kBf16; }
  bool takes_floats() const { return exact_ || is_bf16(); }  // rather than activations in 8 bits
  int rows() const { return rows_; }
  int groups() const { return groups_; }
  int num_blocks() const { return rows_ / kBlockRows; }
  size_t block_bytes() const { return is_bf16() ? kBf16Block : is_int4() ? kInt4Block : kInt8Block; }
  size_t num_bytes() const { return data_.size(); }

  // One row as floats.
  void dequantize_row(int row, float* out) const;

  static constexpr size_t kInt4Block = 4 * 64 + 2 * 32, kInt8Block = 8 * 64 + 32, kBf16Block = 16 * 64;

 private:
  size_t at(int index, int group) const { return (size_t(index) * groups_ + group) * block_bytes(); }
  size_t raw_bytes() const {
    return format_ == Format::kQ4_0 ? 18 : format_ == Format::kQ4_1 ? 20 : format_ == Format::kQ8_0 ? 34 : 2 * kGroup;
  }

  void put(uint8_t* block, int row, const uint8_t* from) const {
    if (is_bf16()) put_bf16(block, row, from);
    else if (is_int4()) put_int4(block, row, from);
    else put_int8(block, row, from);
  }

  // GGUF: scale, [minimum,] 16 bytes with columns 0-15 low and 16-31 high.
  void put_int4(uint8_t* block, int row, const uint8_t* from) const {
    const uint8_t* quants = from + (format_ == Format::kQ4_0 ? 2 : 4);
    const auto nibble = [&](int col) { return col < 16 ? quants[col] & 15 : quants[col - 16] >> 4; };
    for (int z = 0; z < 4; ++z)
      for (int j = 0; j < 4; ++j)
        block[64 * z + 4 * row + j] = uint8_t(nibble(8 * z + j) | nibble(8 * z + 4 + j) << 4);
    std::memcpy(block + 256 + 2 * row, from, 2);
    if (format_ == Format::kQ4_1) std::memcpy(block + 288 + 2 * row, from + 2, 2);
    else put_minimum(block + 288 + 2 * row, from);
  }

  // Symmetric weights are scale × (nibble − 8): the minimum is −8 scales, exact in half precision.
  static void put_minimum(uint8_t* to, const uint8_t* scale) {
    uint16_t half;
    std::memcpy(&half, scale, 2);
    const uint16_t minimum = _cvtss_sh(-8.0f * _cvtsh_ss(half), _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(to, &minimum, 2);
  }

  // GGUF: scale, 32 signed bytes.
  static void put_int8(uint8_t* block, int row, const uint8_t* from) {
    for (int z = 0; z < 8; ++z) std::memcpy(block + 64 * z + 4 * row, from + 2 + 4 * z, 4);
    std::memcpy(block + 512 + 2 * row, from, 2);
  }

  static void put_bf16(uint8_t* block, int row, const uint8_t* from) {
    for (int z = 0; z < kGroup / 2; ++z) std::memcpy(block + 64 * z + 4 * row, from + 4 * z, 4);
  }

  Format format_;
  int rows_, groups_;
  bool exact_ = false;
  Piece data_;
};

inline float half_at(const uint8_t* p, int index) {
  uint16_t half;
  std::memcpy(&half, p + 2 * index, 2);
  return _cvtsh_ss(half);
}

inline float bf16_at(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  const uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline void PackedMatrix::dequantize_row(int row, float* out) const {
  const int r = row % kBlockRows;
  for (int group = 0; group < groups_; ++group, out += kGroup) {
    const uint8_t* from = block(row / kBlockRows, group);
    if (is_bf16()) {
      for (int col = 0; col < kGroup; ++col) out[col] = bf16_at(from + col / 2 * 64 + 4 * r + col % 2 * 2);
    } else if (is_int4()) {
      const float scale = half_at(from + 256, r), minimum = half_at(from + 288, r);
      for (int col = 0; col < kGroup; ++col) {
        const uint8_t both = from[col / 8 * 64 + 4 * r + col % 4];
        out[col] = scale * float(col % 8 < 4 ? both & 15 : both >> 4) + minimum;
      }
    } else {
      const float scale = half_at(from + 512, r);
      for (int col = 0; col < kGroup; ++col) out[col] = scale * float(int8_t(from[col / 4 * 64 + 4 * r + col % 4]));
    }
  }
}
