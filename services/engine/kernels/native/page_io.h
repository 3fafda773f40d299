// KV pages between the pool and the form in which they are stored, which does not depend on the pool's:
//   [layer][KV head]{ keys [16 tokens][D], values [16 tokens][D] }   bfloat16, or
//   [layer][KV head]{ keys [16 tokens][D], values [16 tokens][D], key scales [16], value scales [16] }
//                                                                    int8, with bfloat16 scales
// all of it little-endian. Equal formats give equal numbers; bfloat16 pages are rounded to int8 by `KvPages`' rule.
//
// Nothing here touches anything but the page and the caller's memory: another thread than that of the steps may call it
// while a step runs that neither reads nor writes the page.
#pragma once
#include "kv_pages.h"

namespace page_io {

// Bytes of one head of one layer.
constexpr size_t wire_head_bytes(KvFormat format, int head_dim) {
  return format == KvFormat::kInt8 ? size_t(2) * kPageTokens * head_dim + 4 * kPageTokens
                                   : size_t(4) * kPageTokens * head_dim;
}

// Both: whether every number is finite; if not, what was written is of no use.
bool write_head(const KvPages& pool, int page, int layer, int head, KvFormat format, uint8_t* to);
bool read_head(KvPages& pool, int page, int layer, int head, KvFormat format, const uint8_t* from);

// Detects damage, not forgery: word i (8 bytes, the last one filled up with zeros) goes into the CRC-32C i % 4.
void checksum(const uint8_t* data, size_t num_bytes, uint32_t sums[4]);

}  // namespace page_io
