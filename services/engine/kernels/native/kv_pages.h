// The memory of all KV pages.
//
// A page holds 16 tokens of every layer in one piece, so that clearing or copying a page is one operation:
//   [layer][KV head]{ keys [D][16 tokens], values [16 tokens][D] }   bfloat16, or
//   [layer][KV head]{ keys [D][16 tokens], values [16 tokens][D], key scales [16], value scales [16] }
//                                                                    int8, with bfloat16 scales
// Keys lie by dimension: 16 scores are computed at once. Values lie by token: 16 outputs are.
//
// In 8 bits each token's key and value have a scale of their own in each head. So what is stored of a token follows from
// that token alone, whatever else the page holds or held and however often it is written.
#pragma once
#include <cstring>
#include <utility>

#include "memory.h"
#include "simd.h"

constexpr int kPageTokens = 16;

enum class KvFormat : int32_t { kBf16 = 0, kInt8 = 1 };

inline uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);  // rounding must not turn NaN into infinity
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float wide;
  std::memcpy(&wide, &bits, 4);
  return wide;
}

class KvPages {
 public:
  KvPages(KvFormat format, int num_pages, int num_layers, int num_kv_heads, int head_dim)
      : format_(format),
        num_kv_heads_(num_kv_heads),
        head_dim_(head_dim),
        half_size_(size_t(kPageTokens) * head_dim * (format == KvFormat::kInt8 ? 1 : 2)),
        head_size_(2 * half_size_ + (format == KvFormat::kInt8 ? 4 * kPageTokens : 0)),
        page_size_(head_size_ * num_kv_heads * num_layers),
        data_(page_size_ * num_pages) {}

  // Where one head's part of a page is. Value: uint16_t for bfloat16, int8_t.
  template <class Value>
  const Value* keys(int page, int layer, int head) const {
    return reinterpret_cast<const Value*>(at(page, layer, head));
  }
  template <class Value>
  const Value* values(int page, int layer, int head) const {
    return reinterpret_cast<const Value*>(at(page, layer, head) + half_size_);
  }
  // int8 only: 16 of the keys, 16 of the values
  const uint16_t* scales(int page, int layer, int head) const {
    return reinterpret_cast<const uint16_t*>(at(page, layer, head) + 2 * half_size_);
  }
  template <class Value>
  Value* keys(int page, int layer, int head) {
    return const_cast<Value*>(std::as_const(*this).keys<Value>(page, layer, head));
  }
  template <class Value>
  Value* values(int page, int layer, int head) {
    return const_cast<Value*>(std::as_const(*this).values<Value>(page, layer, head));
  }
  uint16_t* scales(int page, int layer, int head) {
    return const_cast<uint16_t*>(std::as_const(*this).scales(page, layer, head));
  }

  // key, value: [D]
  void write(int page, int offset, int layer, int head, const float* key, const float* value) {
    uint8_t* to = const_cast<uint8_t*>(at(page, layer, head));
    is_int8() ? write_int8(to, offset, key, value) : write_bf16(to, offset, key, value);
  }

  // What a row is multiplied with to become int8.
  static float inverse_of(uint16_t scale) {
    const float wide = from_bf16(scale);
    return wide > 0 ? 1.0f / wide : 0.0f;
  }

  void zero(int page) { std::memset(data_.data() + page * page_size_, 0, page_size_); }
  void copy(int from, int to) {
    std::memcpy(data_.data() + to * page_size_, data_.data() + from * page_size_, page_size_);
  }
  bool is_int8() const { return format_ == KvFormat::kInt8; }
  int head_dim() const { return head_dim_; }
  size_t num_bytes() const { return data_.size(); }

 private:
  const uint8_t* at(int page, int layer, int head) const {
    return data_.data() + page * page_size_ + (size_t(layer) * num_kv_heads_ + head) * head_size_;
  }

  void write_bf16(uint8_t* to, int offset, const float* key, const float* value) const {
    uint16_t* keys = reinterpret_cast<uint16_t*>(to);
    uint16_t* values = reinterpret_cast<uint16_t*>(to + half_size_) + size_t(offset) * head_dim_;
    for (int d = 0; d < head_dim_; ++d) {
      keys[d * kPageTokens + offset] = to_bf16(key[d]);
      values[d] = to_bf16(value[d]);
    }
  }

  void write_int8(uint8_t* to, int offset, const float* key, const float* value) const {
    int8_t* keys = reinterpret_cast<int8_t*>(to);
    uint16_t* scales = reinterpret_cast<uint16_t*>(to + 2 * half_size_);
    int8_t turned[16];
    scales[offset] = scale_of(key);
    for (int d = 0; d < head_dim_; d += 16) {
      store_int8(key + d, scales[offset], turned);
      for (int i = 0; i < 16; ++i) keys[(d + i) * kPageTokens + offset] = turned[i];
    }
    int8_t* values = reinterpret_cast<int8_t*>(to + half_size_) + size_t(offset) * head_dim_;
    scales[kPageTokens + offset] = scale_of(value);
    for (int d = 0; d < head_dim_; d += 16) store_int8(value + d, scales[kPageTokens + offset], values + d);
  }

  // max|x| / 127, so that the largest becomes 127; NaN where there is one in x, which rounding would hide.
  uint16_t scale_of(const float* x) const {
    simd::Floats top = simd::splat(0), nothing = simd::splat(0);
    for (int d = 0; d < head_dim_; d += 16) {
      top = simd::max(top, simd::abs(simd::load(x + d)));
      nothing = simd::fma(simd::load(x + d), simd::splat(0), nothing);
    }
    return to_bf16(simd::largest(top) / 127.0f + simd::sum(nothing));
  }

  // 16 values
  static void store_int8(const float* x, uint16_t scale, int8_t* to) {
    simd::store_bytes(to, simd::to_ints(simd::load(x) * simd::splat(inverse_of(scale))));
  }

  const KvFormat format_;
  const int num_kv_heads_, head_dim_;
  const size_t half_size_, head_size_, page_size_;  // bytes: keys or values of a head, a head, a page
  Buffer<uint8_t> data_;
};
