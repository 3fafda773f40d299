// Attention of a few queries over the pages of one sequence.
//
// Each query's sums run over pages and lanes in a fixed order; queries that share a tile only share the loads.
#pragma once
#include <algorithm>
#include <cmath>

#include "kv_pages.h"
#include "simd.h"

constexpr int kTileQueries = 6;

// One query head of one token, over the sequence's tokens [first, end).
struct Query {
  const float* q;  // [D], rotated and divided by sqrt(D)
  float* out;      // [D]
  int first, end;
};

// The tokens that a tile of queries reads: its pages are those from `first_page` up to, not including, `end_page`.
struct Reach {
  int first, end;

  int first_page() const { return first / kPageTokens; }
  int end_page() const { return (end + kPageTokens - 1) / kPageTokens; }
  int num_pages() const { return end_page() - first_page(); }
};

inline simd::Floats widened(const uint16_t* values) { return simd::load_bf16(values); }
inline simd::Floats widened(const int8_t* values) { return simd::load_int8(values); }

// Where a tile's keys and values are. Value: uint16_t for bfloat16, int8_t.
template <class Value>
struct PageView {
  const KvPages& kv;
  const int32_t* pages;  // the sequence's page table
  int layer, head;

  static constexpr bool kHasScales = sizeof(Value) == 1;
  const Value* keys(int index) const { return kv.keys<Value>(pages[index], layer, head); }
  const Value* values(int index) const { return kv.values<Value>(pages[index], layer, head); }
  simd::Floats key_scales(int index) const { return simd::load_bf16(kv.scales(pages[index], layer, head)); }
  simd::Floats value_scales(int index) const {
    return simd::load_bf16(kv.scales(pages[index], layer, head) + kPageTokens);
  }
};

// Lanes of `page` that the query sees of `a`, `otherwise` in the rest.
inline simd::Floats keep_seen(simd::Floats a, const Query& query, int page, float otherwise) {
  const int start = page * kPageTokens;
  if (query.end < start + kPageTokens) a = simd::keep_below(a, query.end - start, otherwise);
  if (query.first > start) a = simd::keep_from(a, query.first - start, otherwise);
  return a;
}

// scores: [Q, stride], 16 of a page at once; what a query does not see is −infinity
template <int Q, class Value>
inline void score(const PageView<Value>& view, const Query* queries, Reach reach, float* scores, size_t stride) {
  const int head_dim = view.kv.head_dim();
  for (int page = reach.first_page(); page < reach.end_page(); ++page, scores += kPageTokens) {
    const Value* keys = view.keys(page);
    simd::Floats sums[Q];
    for (int i = 0; i < Q; ++i) sums[i] = simd::splat(0);
    for (int d = 0; d < head_dim; ++d) {
      const simd::Floats key = widened(keys + d * kPageTokens);
#pragma GCC unroll 8
      for (int i = 0; i < Q; ++i) sums[i] = simd::fma(simd::splat(queries[i].q[d]), key, sums[i]);
    }
    if constexpr (PageView<Value>::kHasScales) {
      const simd::Floats scales = view.key_scales(page);
      for (int i = 0; i < Q; ++i) sums[i] = sums[i] * scales;
    }
    for (int i = 0; i < Q; ++i) simd::store(scores + i * stride, keep_seen(sums[i], queries[i], page, -INFINITY));
  }
}

// Turns one query's scores into weights, times the scales of the values where these have some, and gives the factor that
// makes the weights alone sum to 1.
template <class Value>
inline float soften(const PageView<Value>& view, float* scores, const Query& query, Reach reach) {
  simd::Floats top = simd::splat(-INFINITY);
  for (int page = 0; page < reach.num_pages(); ++page) top = simd::max(top, simd::load(scores + page * kPageTokens));
  const simd::Floats largest = simd::splat(simd::largest(top));
  simd::Floats total = simd::splat(0);
  for (int page = 0; page < reach.num_pages(); ++page) {
    float* at = scores + page * kPageTokens;
    const simd::Floats weight = simd::exp(simd::load(at) - largest);
    const simd::Floats kept = keep_seen(weight, query, reach.first_page() + page, 0.0f);
    total = total + kept;
    if constexpr (PageView<Value>::kHasScales)
      simd::store(at, kept * view.value_scales(reach.first_page() + page));
    else
      simd::store(at, kept);
  }
  return 1.0f / simd::sum(total);
}

// out = Σ weight × value, 16 dimensions at a time
template <int Q, class Value>
inline void blend(const PageView<Value>& view, const Query* queries, Reach reach, const float* weights, size_t stride,
                  const float* factors) {
  const int head_dim = view.kv.head_dim();
  for (int d = 0; d < head_dim; d += 16) {
    simd::Floats sums[Q];
    for (int i = 0; i < Q; ++i) sums[i] = simd::splat(0);
    const float* page_weights = weights;
    for (int page = reach.first_page(); page < reach.end_page(); ++page, page_weights += kPageTokens) {
      const Value* values = view.values(page) + d;
      const int begin = std::max(0, reach.first - page * kPageTokens);
      const int count = std::min(kPageTokens, reach.end - page * kPageTokens);
      for (int token = begin; token < count; ++token) {
        const simd::Floats value = widened(values + token * head_dim);
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i)
          sums[i] = simd::fma(simd::splat(page_weights[i * stride + token]), value, sums[i]);
      }
    }
    for (int i = 0; i < Q; ++i) simd::store(queries[i].out + d, sums[i] * simd::splat(factors[i]));
  }
}

// Q queries of one KV head. scratch: [kTileQueries, stride], stride ≥ tokens of the pages that the queries reach.
template <int Q = kTileQueries, class Value>
inline void attend(const PageView<Value>& view, const Query* queries, int count, float* scratch, size_t stride) {
  if constexpr (Q > 1) {
    if (count < Q) return attend<Q - 1>(view, queries, count, scratch, stride);
  }
  Reach reach{queries[0].first, queries[0].end};
  for (int i = 1; i < Q; ++i)
    reach = {std::min(reach.first, queries[i].first), std::max(reach.end, queries[i].end)};
  score<Q>(view, queries, reach, scratch, stride);
  float factors[Q];
  for (int i = 0; i < Q; ++i) factors[i] = soften(view, scratch + i * stride, queries[i], reach);
  blend<Q>(view, queries, reach, scratch, stride, factors);
}

// The same over pages of either format. pages: the sequence's page table
inline void attend(const KvPages& kv, const int32_t* pages, int layer, int head, const Query* queries, int count,
                   float* scratch, size_t stride) {
  if (kv.is_int8()) attend(PageView<int8_t>{kv, pages, layer, head}, queries, count, scratch, stride);
  else attend(PageView<uint16_t>{kv, pages, layer, head}, queries, count, scratch, stride);
}
