// Attention of a few queries over the pages of one sequence.
//
// Each query's sums run over pages and lanes in a fixed order; queries that share a tile only share the loads.
#pragma once
#include <algorithm>
#include <cmath>

#include "kv_pages.h"
#include "simd.h"

constexpr int kTileQueries = 6;

// One query head of one token, over the sequence's first `num_tokens` tokens.
struct Query {
  const float* q;  // [D], rotated and divided by sqrt(D)
  float* out;      // [D]
  int num_tokens;
};

// Where a tile's keys and values are.
struct PageView {
  const KvPages& kv;
  const int32_t* pages;  // the sequence's page table
  int layer, head;

  const uint16_t* keys(int index) const { return kv.keys(pages[index], layer, head); }
  const uint16_t* values(int index) const { return kv.values(pages[index], layer, head); }
};

// scores: [Q, stride], 16 of a page at once; beyond a query's tokens −infinity
template <int Q>
inline void score(const PageView& view, const Query* queries, int num_pages, float* scores, size_t stride) {
  const int head_dim = view.kv.head_dim();
  for (int page = 0; page < num_pages; ++page) {
    const uint16_t* keys = view.keys(page);
    simd::Floats sums[Q];
    for (int i = 0; i < Q; ++i) sums[i] = simd::splat(0);
    for (int d = 0; d < head_dim; ++d) {
      const simd::Floats key = simd::load_bf16(keys + d * kPageTokens);
#pragma GCC unroll 8
      for (int i = 0; i < Q; ++i) sums[i] = simd::fma(simd::splat(queries[i].q[d]), key, sums[i]);
    }
    for (int i = 0; i < Q; ++i)
      simd::store(scores + i * stride + page * kPageTokens,
                  simd::keep_below(sums[i], queries[i].num_tokens - page * kPageTokens, -INFINITY));
  }
}

// Turns one query's scores into weights and gives the factor that makes them sum to 1.
inline float soften(float* scores, int num_pages, int num_tokens) {
  simd::Floats top = simd::splat(-INFINITY);
  for (int page = 0; page < num_pages; ++page) top = simd::max(top, simd::load(scores + page * kPageTokens));
  const simd::Floats largest = simd::splat(simd::largest(top));
  simd::Floats total = simd::splat(0);
  for (int page = 0; page < num_pages; ++page) {
    float* at = scores + page * kPageTokens;
    const simd::Floats weight = simd::exp(simd::load(at) - largest);
    const simd::Floats kept = simd::keep_below(weight, num_tokens - page * kPageTokens, 0.0f);
    simd::store(at, kept);
    total = total + kept;
  }
  return 1.0f / simd::sum(total);
}

// out = Σ weight × value, 16 dimensions at a time
template <int Q>
inline void blend(const PageView& view, const Query* queries, int num_tokens, const float* weights, size_t stride,
                  const float* factors) {
  const int head_dim = view.kv.head_dim();
  for (int d = 0; d < head_dim; d += 16) {
    simd::Floats sums[Q];
    for (int i = 0; i < Q; ++i) sums[i] = simd::splat(0);
    for (int start = 0; start < num_tokens; start += kPageTokens) {
      const uint16_t* values = view.values(start / kPageTokens) + d;
      const int count = std::min(kPageTokens, num_tokens - start);
      for (int token = 0; token < count; ++token) {
        const simd::Floats value = simd::load_bf16(values + token * head_dim);
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i)
          sums[i] = simd::fma(simd::splat(weights[i * stride + start + token]), value, sums[i]);
      }
    }
    for (int i = 0; i < Q; ++i) simd::store(queries[i].out + d, sums[i] * simd::splat(factors[i]));
  }
}

// Q queries of one KV head. scratch: [kTileQueries, stride], stride ≥ tokens rounded up to whole pages.
template <int Q = kTileQueries>
inline void attend(const PageView& view, const Query* queries, int count, float* scratch, size_t stride) {
  if constexpr (Q > 1) {
    if (count < Q) return attend<Q - 1>(view, queries, count, scratch, stride);
  }
  int num_tokens = 0;
  for (int i = 0; i < Q; ++i) num_tokens = std::max(num_tokens, queries[i].num_tokens);
  const int num_pages = (num_tokens + kPageTokens - 1) / kPageTokens;
  score<Q>(view, queries, num_pages, scratch, stride);
  float factors[Q];
  for (int i = 0; i < Q; ++i) factors[i] = soften(scratch + i * stride, num_pages, queries[i].num_tokens);
  blend<Q>(view, queries, num_tokens, scratch, stride, factors);
}
