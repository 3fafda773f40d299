// Attention of some queries over the pages of one sequence.
//
// Queries stand together in tiles, whose sums stay in registers, and tiles in a crowd, which reads a few pages at a time
// while these are in the cache. Each query's sums run over pages and lanes in a fixed order: what stands beside it only
// shares the loads.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kv_pages.h"
#include "simd.h"

constexpr int kTileQueries = 6;
constexpr int kMaxTiles = 8;
constexpr int kMaxQueries = kTileQueries * kMaxTiles;
// So many tiles read pages as they are: for more of them it is cheaper to make floats once.
constexpr int kDirectTiles = simd::kTileRows >= 8 ? 3 : 1;
constexpr int kPagesAtOnce = 4;  // keys or values of one head: 16 kB at 64 dimensions as floats

// One query head of one token, over the sequence's tokens [first, end).
struct Query {
  const float* q;  // [D], rotated and divided by sqrt(D)
  float* out;      // [D]
  int first, end;

  // All tokens of `count` pages from `page` on.
  bool sees(int page, int count) const { return first <= page * kPageTokens && end >= (page + count) * kPageTokens; }
};

// Entries [begin, end) of a sequence's page table.
struct Pages {
  int begin, end;

  int count() const { return end - begin; }
};

// Tokens [first, end) that some queries read.
struct Reach {
  int first, end;

  Pages pages() const { return {first / kPageTokens, (end + kPageTokens - 1) / kPageTokens}; }
};

inline simd::Floats widened(const uint16_t* values) { return simd::load_bf16(values); }
inline simd::Floats widened(const int8_t* values) { return simd::load_int8(values); }
inline simd::Floats widened(const float* values) { return simd::load(values); }

// Where a tile's keys and values are. Value: uint16_t for bfloat16, int8_t.
template <class V>
struct PageView {
  using Value = V;
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

// The same as floats, which many tiles read: a few pages from `first` on, of either the keys or the values.
template <class V>
struct WideView : PageView<V> {
  using Value = float;
  const float* floats = nullptr;  // [pages, D × 16]
  int first = 0;

  explicit WideView(const PageView<V>& narrow) : PageView<V>(narrow) {}
  int page_size() const { return this->kv.head_dim() * kPageTokens; }
  const float* keys(int index) const { return floats + size_t(index - first) * page_size(); }
  const float* values(int index) const { return keys(index); }

  // `part(page)`: what `pages` are to be made of.
  template <class Part>
  void widen(Pages pages, Part part, float* room) {
    floats = room, first = pages.begin;
    const int size = page_size();
    for (int page = pages.begin; page < pages.end; ++page, room += size) {
      const V* from = part(page);
      for (int at = 0; at < size; at += 16) simd::store(room + at, widened(from + at));
    }
  }
};

// Lanes of `page` that the query sees of `a`, `otherwise` in the rest.
inline simd::Floats keep_seen(simd::Floats a, const Query& query, int page, float otherwise) {
  const int start = page * kPageTokens;
  if (query.end < start + kPageTokens) a = simd::keep_below(a, query.end - start, otherwise);
  if (query.first > start) a = simd::keep_from(a, query.first - start, otherwise);
  return a;
}

// Few sums leave a processor waiting: then some pages or dimensions are summed at once, as many as there are registers
// for. Each sum stays the same chain.
template <int Q>
constexpr int kAtOnce = simd::kTileRows >= 8 ? 4 : 2 * Q <= kTileQueries ? 2 : 1;

// Whether pages are asked for before they are read: few queries wait for memory.
template <int Q, class View>
constexpr bool kAsks = 2 * Q <= kTileQueries && !std::is_same_v<typename View::Value, float>;

// Asks for `count` values.
template <class Value>
inline void ask_for(const Value* values, int count) {
  for (size_t at = 0; at < count * sizeof(Value); at += 64) simd::prefetch(reinterpret_cast<const uint8_t*>(values) + at);
}

// scores: [Q, stride], 16 of each of the P pages from `page` on; what a query does not see is −infinity
template <int Q, int P, class View>
inline void score_pages(const View& view, const Query* queries, int page, float* scores, size_t stride) {
  const int head_dim = view.kv.head_dim();
  const typename View::Value* keys[P];
  const float* q[Q];
  simd::Floats sums[P * Q];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) keys[p] = view.keys(page + p);
#pragma GCC unroll 8
  for (int i = 0; i < Q; ++i) q[i] = queries[i].q;
#pragma GCC unroll 24
  for (int i = 0; i < P * Q; ++i) sums[i] = simd::splat(0);
  for (int d = 0; d < head_dim; ++d) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      const simd::Floats key = widened(keys[p] + d * kPageTokens);
#pragma GCC unroll 8
      for (int i = 0; i < Q; ++i) sums[p * Q + i] = simd::fma(simd::splat(q[i][d]), key, sums[p * Q + i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Q; ++i) {
    const bool sees_all = queries[i].sees(page, P);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      simd::Floats sum = sums[p * Q + i];
      if constexpr (View::kHasScales) sum = sum * view.key_scales(page + p);
      if (!sees_all) sum = keep_seen(sum, queries[i], page + p, -INFINITY);
      simd::store(scores + i * stride + p * kPageTokens, sum);
    }
  }
}

// The same for all `pages`, the first at the beginning of `scores`.
template <int Q, class View>
inline void score(const View& view, const Query* queries, Pages pages, float* scores, size_t stride) {
  constexpr int kPages = kAtOnce<Q>;
  const int size = view.kv.head_dim() * kPageTokens;
  int page = pages.begin;
  for (; page + kPages <= pages.end; page += kPages, scores += kPages * kPageTokens) {
    if constexpr (kAsks<Q, View>)
      for (int next = page + kPages; next < std::min(page + 2 * kPages, pages.end); ++next) ask_for(view.keys(next), size);
    score_pages<Q, kPages>(view, queries, page, scores, stride);
  }
  for (; page < pages.end; ++page, scores += kPageTokens) score_pages<Q, 1>(view, queries, page, scores, stride);
}

// Turns one query's scores into weights, times the scales of the values where these have some, and gives the factor that
// makes the weights alone sum to 1.
template <class View>
inline float soften(const View& view, float* scores, const Query& query, Pages pages) {
  simd::Floats top = simd::splat(-INFINITY);
  for (int i = 0; i < pages.count(); ++i) top = simd::max(top, simd::load(scores + i * kPageTokens));
  const simd::Floats largest = simd::splat(simd::largest(top));
  simd::Floats total = simd::splat(0);
  for (int i = 0; i < pages.count(); ++i) {
    float* at = scores + i * kPageTokens;
    const simd::Floats weight = simd::exp(simd::load(at) - largest);
    const int page = pages.begin + i;
    const simd::Floats kept = query.sees(page, 1) ? weight : keep_seen(weight, query, page, 0.0f);
    total = total + kept;
    if constexpr (View::kHasScales) simd::store(at, kept * view.value_scales(pages.begin + i));
    else simd::store(at, kept);
  }
  return 1.0f / simd::sum(total);
}

// out += Σ weight × value over `pages`, for 16 × W dimensions from `d` on
template <int Q, int W, class View>
inline void blend_dims(const View& view, const Query* queries, Reach reach, Pages pages, int d, const float* weights,
                       size_t stride) {
  const int head_dim = view.kv.head_dim();
  simd::Floats sums[W * Q];
#pragma GCC unroll 4
  for (int w = 0; w < W; ++w)
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i) sums[w * Q + i] = simd::load(queries[i].out + d + 16 * w);
  for (int page = pages.begin; page < pages.end; ++page, weights += kPageTokens) {
    if (kAsks<Q, View> && d == 0 && page + 1 < pages.end) ask_for(view.values(page + 1), head_dim * kPageTokens);
    const typename View::Value* values = view.values(page) + d;
    const int begin = std::max(0, reach.first - page * kPageTokens);
    const int count = std::min(kPageTokens, reach.end - page * kPageTokens);
    for (int token = begin; token < count; ++token) {
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w) {
        const simd::Floats value = widened(values + token * head_dim + 16 * w);
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i)
          sums[w * Q + i] = simd::fma(simd::splat(weights[i * stride + token]), value, sums[w * Q + i]);
      }
    }
  }
#pragma GCC unroll 4
  for (int w = 0; w < W; ++w)
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i) simd::store(queries[i].out + d + 16 * w, sums[w * Q + i]);
}

// The same for all dimensions, of which there are a multiple of 32. weights: [Q, stride], the first those of `pages.begin`
template <int Q, class View>
inline void blend(const View& view, const Query* queries, Reach reach, Pages pages, const float* weights,
                  size_t stride) {
  constexpr int kDims = 16 * kAtOnce<Q>;
  const int head_dim = view.kv.head_dim();
  int d = 0;
  for (; d + kDims <= head_dim; d += kDims) blend_dims<Q, kAtOnce<Q>>(view, queries, reach, pages, d, weights, stride);
  for (; d < head_dim; d += 16) blend_dims<Q, 1>(view, queries, reach, pages, d, weights, stride);
}

// Calls `run` with the number of a tile's queries as a constant.
template <int Q = kTileQueries, class Run>
inline void with_count(int count, Run run) {
  if constexpr (Q > 1) {
    if (count < Q) return with_count<Q - 1>(count, run);
  }
  run(std::integral_constant<int, Q>());
}

// Memory that one thread attends with.
struct AttentionScratch {
  Buffer<float> scores;  // [queries, stride]
  Buffer<float> wide;    // [kPagesAtOnce, D × 16] keys or values of a few pages
  size_t stride = 0;     // an odd number of cache lines: the queries' scores for a page do not share the same few sets

  // max_tokens: in whole pages
  void reserve(int num_queries, size_t max_tokens, int head_dim) {
    stride = (max_tokens / kPageTokens | 1) * kPageTokens;
    scores.reserve(num_queries * stride);
    wide.reserve(size_t(kPagesAtOnce) * head_dim * kPageTokens);
  }
};

// Queries of one KV head.
template <class Value>
class Crowd {
 public:
  Crowd(const PageView<Value>& view, const Query* queries, int count, AttentionScratch& scratch)
      : view_(view),
        queries_(queries),
        count_(count),
        scores_(scratch.scores.data()),
        wide_(scratch.wide.data()),
        stride_(scratch.stride),
        whole_(reach_of(0, count)) {}

  void attend() {
    each_chunk([&](const auto& view, auto q, int first, Pages pages) {
      score<q()>(view, queries_ + first, pages, scores_of(first, pages), stride_);
    }, [&](int page) { return view_.keys(page); });
    if (count_ <= kTileQueries / 2) ask_for(view_.values(whole_.pages().begin), view_.kv.head_dim() * kPageTokens);
    float factors[kMaxQueries];
    for (int i = 0; i < count_; ++i) {
      const int first = i / kTileQueries * kTileQueries;
      const Pages pages = reach_of(first, tile_count(first)).pages();
      factors[i] = soften(view_, scores_of(i, pages), queries_[i], pages);
      std::fill(queries_[i].out, queries_[i].out + view_.kv.head_dim(), 0.0f);
    }
    each_chunk([&](const auto& view, auto q, int first, Pages pages) {
      blend<q()>(view, queries_ + first, reach_of(first, q()), pages, scores_of(first, pages), stride_);
    }, [&](int page) { return view_.values(page); });
    for (int i = 0; i < count_; ++i)
      for (int d = 0; d < view_.kv.head_dim(); d += 16)
        simd::store(queries_[i].out + d, simd::load(queries_[i].out + d) * simd::splat(factors[i]));
  }

 private:
  // run(view, size of the tile, its first query, pages). Of many tiles each that reaches them gets a few pages, made
  // floats once for all of them from `part(page)`, then the next ones.
  template <class Run, class Part>
  void each_chunk(Run run, Part part) {
    const Pages all = whole_.pages();
    if (count_ <= kDirectTiles * kTileQueries)
      return each_tile(all, [&](auto q, int first, Pages pages) { run(view_, q, first, pages); });
    WideView<Value> wide(view_);
    for (int page = all.begin; page < all.end; page += kPagesAtOnce) {
      const Pages chunk{page, std::min(page + kPagesAtOnce, all.end)};
      wide.widen(chunk, part, wide_);
      each_tile(chunk, [&](auto q, int first, Pages pages) { run(wide, q, first, pages); });
    }
  }

  // run(size of the tile, its first query, pages): every tile that reaches pages of the chunk
  template <class Run>
  void each_tile(Pages chunk, Run run) {
    for (int first = 0; first < count_; first += kTileQueries) {
      const Pages reached = reach_of(first, tile_count(first)).pages();
      const Pages pages{std::max(chunk.begin, reached.begin), std::min(chunk.end, reached.end)};
      if (pages.count() > 0) with_count(tile_count(first), [&](auto q) { run(q, first, pages); });
    }
  }

  int tile_count(int first) const { return std::min(kTileQueries, count_ - first); }

  Reach reach_of(int first, int count) const {
    Reach reach{queries_[first].first, queries_[first].end};
    for (int i = first + 1; i < first + count; ++i)
      reach = {std::min(reach.first, queries_[i].first), std::max(reach.end, queries_[i].end)};
    return reach;
  }

  float* scores_of(int query, Pages pages) const {
    return scores_ + query * stride_ + size_t(pages.begin - whole_.pages().begin) * kPageTokens;
  }

  const PageView<Value>& view_;
  const Query* const queries_;
  const int count_;
  float *const scores_, *const wide_;
  const size_t stride_;
  const Reach whole_;
};

// At most kMaxQueries queries of one KV head over pages of either format. pages: the sequence's page table
inline void attend(const KvPages& kv, const int32_t* pages, int layer, int head, const Query* queries, int count,
                   AttentionScratch& scratch) {
  if (kv.is_int8()) Crowd(PageView<int8_t>{kv, pages, layer, head}, queries, count, scratch).attend();
  else Crowd(PageView<uint16_t>{kv, pages, layer, head}, queries, count, scratch).attend();
}
