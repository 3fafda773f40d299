#include "page_io.h"

#include "decoder.h"

namespace page_io {
namespace {

constexpr int kSide = 16;  // squares of 16 dimensions × 16 tokens

// Each round rotates the bits of an element's (row, column) by one: after log2(rows) rounds they have changed places.
inline void transpose(__m128i (&rows)[16]) {  // of 16 × 16 bytes
  for (int round = 0; round < 4; ++round) {
    __m128i next[16];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

inline void transpose(__m128i (&rows)[8]) {  // of 8 × 8 words of 16 bits
  for (int round = 0; round < 3; ++round) {
    __m128i next[8];
    for (int i = 0; i < 4; ++i) {
      next[2 * i] = _mm_unpacklo_epi16(rows[i], rows[i + 4]);
      next[2 * i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 4]);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

// Value: int8_t or uint16_t. from: [num_rows][num_cols], both multiples of 16; to: [num_cols][num_rows]
template <class Value>
void transpose(const Value* from, int num_rows, int num_cols, Value* to) {
  constexpr int kEdge = 16 / sizeof(Value);
  for (int row = 0; row < num_rows; row += kEdge)
    for (int col = 0; col < num_cols; col += kEdge) {
      __m128i square[kEdge];
      for (int i = 0; i < kEdge; ++i)
        square[i] = _mm_loadu_si128((const __m128i*)(from + size_t(row + i) * num_cols + col));
      transpose(square);
      for (int i = 0; i < kEdge; ++i)
        _mm_storeu_si128((__m128i*)(to + size_t(col + i) * num_rows + row), square[i]);
    }
}

bool are_finite(const uint16_t* values, size_t count) {
  uint16_t bad = 0;
  for (size_t i = 0; i < count; ++i) bad |= uint16_t((values[i] & 0x7f80) == 0x7f80);
  return bad == 0;
}

// So small that no 8-bit value times the scale overflows; false for NaN and for what is no scale.
bool are_scales(const uint16_t* scales, int count) {
  constexpr uint16_t kLargest = 0x7c00;
  uint16_t bad = 0;
  for (int i = 0; i < count; ++i) bad |= uint16_t(scales[i] > kLargest);
  return bad == 0;
}

inline simd::Floats inverse_of(const uint16_t* scales) {
  float inverse[kSide];
  for (int i = 0; i < kSide; ++i) inverse[i] = KvPages::inverse_of(scales[i]);
  return simd::load(inverse);
}

// keys: [D][16 tokens], to: [16 tokens][D]; all tokens side by side
void round_keys(const uint16_t* keys, int head_dim, int8_t* to, uint16_t* scales) {
  simd::Floats top = simd::splat(0);
  for (int d = 0; d < head_dim; ++d) top = simd::max(top, simd::abs(simd::load_bf16(keys + d * kPageTokens)));
  float largest[kPageTokens];
  simd::store(largest, top);
  for (int i = 0; i < kPageTokens; ++i) scales[i] = to_bf16(largest[i] / 127.0f);
  const simd::Floats inverse = inverse_of(scales);
  for (int d = 0; d < head_dim; d += kSide) {
    int8_t square[kSide * kPageTokens];
    for (int i = 0; i < kSide; ++i)
      simd::store_bytes(square + i * kPageTokens,
                        simd::to_ints(simd::load_bf16(keys + (d + i) * kPageTokens) * inverse));
    __m128i rows[kSide];
    std::memcpy(rows, square, sizeof square);
    transpose(rows);
    for (int i = 0; i < kPageTokens; ++i) std::memcpy(to + i * head_dim + d, rows + i, kSide);
  }
}

// values, to: [16 tokens][D]
void round_values(const uint16_t* values, int head_dim, int8_t* to, uint16_t* scales) {
  for (int token = 0; token < kPageTokens; ++token, values += head_dim, to += head_dim) {
    simd::Floats top = simd::splat(0);
    for (int d = 0; d < head_dim; d += 16) top = simd::max(top, simd::abs(simd::load_bf16(values + d)));
    scales[token] = to_bf16(simd::largest(top) / 127.0f);
    const simd::Floats inverse = simd::splat(KvPages::inverse_of(scales[token]));
    for (int d = 0; d < head_dim; d += 16)
      simd::store_bytes(to + d, simd::to_ints(simd::load_bf16(values + d) * inverse));
  }
}

// from: [16 tokens][D], keys: [D][16 tokens]
void widen_keys(const int8_t* from, const uint16_t* scales, int head_dim, uint16_t* keys) {
  const simd::Floats scale = simd::load_bf16(scales);
  for (int d = 0; d < head_dim; d += kSide) {
    __m128i rows[kPageTokens];
    for (int i = 0; i < kPageTokens; ++i) std::memcpy(rows + i, from + i * head_dim + d, kSide);
    transpose(rows);
    int8_t square[kSide * kPageTokens];
    std::memcpy(square, rows, sizeof square);
    for (int i = 0; i < kSide; ++i)
      simd::store_bf16(keys + (d + i) * kPageTokens, simd::load_int8(square + i * kPageTokens) * scale);
  }
}

// from, values: [16 tokens][D]
void widen_values(const int8_t* from, const uint16_t* scales, int head_dim, uint16_t* values) {
  for (int token = 0; token < kPageTokens; ++token, from += head_dim, values += head_dim)
    for (int d = 0; d < head_dim; d += 16)
      simd::store_bf16(values + d, simd::load_int8(from + d) * simd::splat(from_bf16(scales[token])));
}

}  // namespace

bool write_head(const KvPages& pool, int page, int layer, int head, KvFormat format, uint8_t* to) {
  const int head_dim = pool.head_dim();
  const size_t count = size_t(kPageTokens) * head_dim;  // of keys, and of values
  int8_t* bytes = reinterpret_cast<int8_t*>(to);
  if (pool.is_int8()) {
    const uint16_t* scales = pool.scales(page, layer, head);
    transpose(pool.keys<int8_t>(page, layer, head), head_dim, kPageTokens, bytes);
    std::memcpy(bytes + count, pool.values<int8_t>(page, layer, head), count);
    std::memcpy(bytes + 2 * count, scales, 4 * kPageTokens);
    return are_scales(scales, 2 * kPageTokens);
  }
  const uint16_t* keys = pool.keys<uint16_t>(page, layer, head);
  const uint16_t* values = pool.values<uint16_t>(page, layer, head);
  if (!are_finite(keys, count) || !are_finite(values, count)) return false;
  if (format == KvFormat::kBf16) {
    uint16_t* words = reinterpret_cast<uint16_t*>(to);
    transpose(keys, head_dim, kPageTokens, words);
    std::memcpy(words + count, values, 2 * count);
    return true;
  }
  uint16_t scales[2 * kPageTokens];
  round_keys(keys, head_dim, bytes, scales);
  round_values(values, head_dim, bytes + count, scales + kPageTokens);
  std::memcpy(bytes + 2 * count, scales, sizeof scales);
  return are_scales(scales, 2 * kPageTokens);
}

bool read_head(KvPages& pool, int page, int layer, int head, KvFormat format, const uint8_t* from) {
  const int head_dim = pool.head_dim();
  const size_t count = size_t(kPageTokens) * head_dim;
  const int8_t* bytes = reinterpret_cast<const int8_t*>(from);
  if (format == KvFormat::kBf16) {
    const uint16_t* words = reinterpret_cast<const uint16_t*>(from);
    if (!are_finite(words, 2 * count)) return false;
    transpose(words, kPageTokens, head_dim, pool.keys<uint16_t>(page, layer, head));
    std::memcpy(pool.values<uint16_t>(page, layer, head), words + count, 2 * count);
    return true;
  }
  uint16_t scales[2 * kPageTokens];
  std::memcpy(scales, bytes + 2 * count, sizeof scales);
  if (!are_scales(scales, 2 * kPageTokens)) return false;
  if (pool.is_int8()) {
    transpose(bytes, kPageTokens, head_dim, pool.keys<int8_t>(page, layer, head));
    std::memcpy(pool.values<int8_t>(page, layer, head), bytes + count, count);
    std::memcpy(pool.scales(page, layer, head), scales, sizeof scales);
  } else {
    widen_keys(bytes, scales, head_dim, pool.keys<uint16_t>(page, layer, head));
    widen_values(bytes + count, scales + kPageTokens, head_dim, pool.values<uint16_t>(page, layer, head));
  }
  return true;
}

void checksum(const uint8_t* data, size_t num_bytes, uint32_t sums[4]) {
  uint64_t lanes[4] = {~0u, ~0u, ~0u, ~0u};
  const auto add = [&](int lane, const uint8_t* from, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, from, size);
    lanes[lane] = _mm_crc32_u64(lanes[lane], word);
  };
  size_t at = 0;
  for (; at + 32 <= num_bytes; at += 32)
    for (int lane = 0; lane < 4; ++lane) add(lane, data + at + 8 * lane, 8);
  for (int lane = 0; at < num_bytes; at += 8, ++lane) add(lane, data + at, std::min<size_t>(8, num_bytes - at));
  for (int lane = 0; lane < 4; ++lane) sums[lane] = ~uint32_t(lanes[lane]);
}

}  // namespace page_io

size_t Decoder::stored_page_bytes(KvFormat format) const {
  return page_io::wire_head_bytes(format, shape_.head_dim) * shape_.num_kv_heads * shape_.num_layers;
}

bool Decoder::export_page(int page, KvFormat format, uint8_t* to) const {
  bool is_finite = true;
  for (int layer = 0; layer < shape_.num_layers; ++layer)
    for (int head = 0; head < shape_.num_kv_heads; ++head) {
      is_finite = page_io::write_head(kv_, page, layer, head, format, to) && is_finite;
      to += page_io::wire_head_bytes(format, shape_.head_dim);
    }
  return is_finite;
}

bool Decoder::import_page(int page, KvFormat format, const uint8_t* from) {
  for (int layer = 0; layer < shape_.num_layers; ++layer)
    for (int head = 0; head < shape_.num_kv_heads; ++head) {
      if (!page_io::read_head(kv_, page, layer, head, format, from)) {
        kv_.zero(page);
        return false;
      }
      from += page_io::wire_head_bytes(format, shape_.head_dim);
    }
  return true;
}

size_t sm_page_bytes(const sm_decoder* d, int32_t format) {
  return reinterpret_cast<const Decoder*>(d)->stored_page_bytes(KvFormat(format));
}

void sm_export_pages(const sm_decoder* d, const int32_t* pages, int32_t num_pages, int32_t format, uint8_t* const* to,
                     uint8_t* are_finite) {
  for (int i = 0; i < num_pages; ++i)
    are_finite[i] = reinterpret_cast<const Decoder*>(d)->export_page(pages[i], KvFormat(format), to[i]);
}

void sm_import_pages(sm_decoder* d, const int32_t* pages, int32_t num_pages, int32_t format,
                     const uint8_t* const* from, uint8_t* are_finite) {
  for (int i = 0; i < num_pages; ++i)
    are_finite[i] = reinterpret_cast<Decoder*>(d)->import_page(pages[i], KvFormat(format), from[i]);
}

void sm_checksum(const uint8_t* data, size_t num_bytes, uint32_t* sums) { page_io::checksum(data, num_bytes, sums); }
