// One row block of 4-bit weights, unpacked once for many rows of activations.
//
// For each group: 8 × 64 bytes, byte 4r + j of the z-th: column 4z + j of row r; 16 float scales; 16 float minimums.
#pragma once
#include "packed_matrix.h"

class Panel {
 public:
  static constexpr size_t kScalesAt = 8 * 64, kGroupBytes = kScalesAt + 2 * kBlockRows * sizeof(float);

  void unpack(const PackedMatrix& w, int index) {
    bytes_.reserve(w.groups() * kGroupBytes);
    uint8_t* out = bytes_.data();
    for (int group = 0; group < w.groups(); ++group, out += kGroupBytes) unpack_group(w.block(index, group), out);
  }

  const uint8_t* group(int index) const { return bytes_.data() + index * kGroupBytes; }

 private:
  static void unpack_group(const uint8_t* block, uint8_t* out) {
    for (int z = 0; z < 4; ++z) {
      simd::Nibbles low, high;
      simd::load_nibbles(block + 64 * z, low, high);
      simd::store_unpacked(out + 128 * z, low);
      simd::store_unpacked(out + 128 * z + 64, high);
    }
    float* scales = reinterpret_cast<float*>(out + kScalesAt);
    simd::store(scales, simd::load_half((const uint16_t*)(block + 256)));
    simd::store(scales + kBlockRows, simd::load_half((const uint16_t*)(block + 288)));
  }

  Buffer<uint8_t> bytes_;
};
