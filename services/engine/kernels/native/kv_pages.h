// The memory of all KV pages.
//
// A page holds 16 tokens of every layer in one piece, so that clearing or copying a page is one operation:
//   [layer][KV head]{ keys [D][16 tokens], values [16 tokens][D] }   bfloat16
// Keys lie by dimension: 16 scores are computed at once. Values lie by token: 16 outputs are.
#pragma once
#include <cstring>

#include "memory.h"

constexpr int kPageTokens = 16;

inline uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);  // rounding must not turn NaN into infinity
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

class KvPages {
 public:
  KvPages() = default;
  KvPages(int num_pages, int num_layers, int num_kv_heads, int head_dim)
      : num_kv_heads_(num_kv_heads),
        head_dim_(head_dim),
        head_size_(size_t(2) * kPageTokens * head_dim),
        page_size_(head_size_ * num_kv_heads * num_layers),
        data_(page_size_ * num_pages) {}

  const uint16_t* keys(int page, int layer, int head) const { return data_.data() + at(page, layer, head); }
  const uint16_t* values(int page, int layer, int head) const { return keys(page, layer, head) + head_size_ / 2; }

  // key, value: [D]
  void write(int page, int offset, int layer, int head, const float* key, const float* value) {
    uint16_t* keys = data_.data() + at(page, layer, head);
    uint16_t* values = keys + head_size_ / 2 + size_t(offset) * head_dim_;
    for (int d = 0; d < head_dim_; ++d) {
      keys[d * kPageTokens + offset] = to_bf16(key[d]);
      values[d] = to_bf16(value[d]);
    }
  }

  void zero(int page) { std::memset(data_.data() + page * page_size_, 0, page_size_ * sizeof(uint16_t)); }
  int head_dim() const { return head_dim_; }
  size_t num_bytes() const { return data_.size() * sizeof(uint16_t); }

 private:
  size_t at(int page, int layer, int head) const {
    return page * page_size_ + (size_t(layer) * num_kv_heads_ + head) * head_size_;
  }

  int num_kv_heads_ = 0, head_dim_ = 0;
  size_t head_size_ = 0, page_size_ = 0;
  Buffer<uint16_t> data_;
};
