// The C interface around the classes.
#include "kernels.h"

#include "convert.h"
#include "decoder.h"

namespace {

PackedMatrix& of(sm_matrix* m) { return *reinterpret_cast<PackedMatrix*>(m); }
const PackedMatrix& of(const sm_matrix* m) { return *reinterpret_cast<const PackedMatrix*>(m); }
Decoder& of(sm_decoder* d) { return *reinterpret_cast<Decoder*>(d); }

// No exception may leave the C interface.
template <class Work>
int32_t status(Work work) {
  try {
    work();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

template <class T, class Handle, class... Args>
Handle* make(Args... args) {
  T* made = nullptr;
  status([&] { made = new T(args...); });
  return reinterpret_cast<Handle*>(made);
}

}  // namespace

sm_matrix* sm_matrix_new(int32_t format, int32_t rows, int32_t cols) {
  return make<PackedMatrix, sm_matrix>(Format(format), rows, cols);
}
sm_matrix* sm_matrix_exact(const sm_matrix* m) {
  PackedMatrix* made = nullptr;
  status([&] { made = new PackedMatrix(of(m).exact()); });
  return reinterpret_cast<sm_matrix*>(made);
}
void sm_matrix_fill(sm_matrix* m, const uint8_t* raw, int32_t num_rows, int32_t first_block, int32_t block_step) {
  of(m).fill(raw, num_rows, first_block, block_step);
}
size_t sm_matrix_bytes(const sm_matrix* m) { return of(m).num_bytes(); }
void sm_matrix_free(sm_matrix* m) { delete &of(m); }
void sm_convert(int32_t from, int32_t to, const uint8_t* raw, size_t num_values, uint8_t* out) {
  convert(from, Format(to), raw, num_values / kGroup, out);
}

sm_decoder* sm_decoder_new(const sm_shape* shape, const float* cos, const float* sin) {
  Decoder* made = nullptr;
  status([&] { made = new Decoder(*shape, cos, sin); });
  return reinterpret_cast<sm_decoder*>(made);
}
void sm_decoder_set_layer(sm_decoder* d, int32_t weights, int32_t index, const sm_layer* layer) {
  of(d).set_layer(weights, index, *layer);
}
void sm_decoder_set_ends(sm_decoder* d, int32_t weights, const sm_matrix* embedding, const sm_matrix* head,
                         const float* norm) {
  of(d).set_ends(weights, &of(embedding), &of(head), norm);
}
int32_t sm_decoder_screen_head(sm_decoder* d, int32_t weights, int32_t vocab, const float* basis, const float* scale) {
  return status([&] { of(d).screen_head(weights, vocab, basis, scale); });
}
int32_t sm_decoder_set_adapter(sm_decoder* d, int32_t adapter, const sm_lora* parts, int32_t num_parts) {
  return status([&] { of(d).set_adapter(adapter, parts, num_parts); });
}
int32_t sm_decoder_step(sm_decoder* d, int32_t weights, const sm_batch* batch, float* logits, double* seconds) {
  return status([&] { of(d).step(weights, *batch, logits, seconds); });
}
void sm_limit_threads(sm_decoder* d, int32_t most) { of(d).limit_threads(most); }
size_t sm_read_pass(sm_decoder* d, int32_t weights) { return of(d).read_pass(weights); }

int32_t sm_stage_embed(sm_decoder* d, int32_t weights, const sm_batch* batch, float* x) {
  return status([&] { of(d).embed_stage(weights, *batch, x); });
}
int32_t sm_stage_norm(sm_decoder* d, int32_t weights, int32_t layer, int32_t norm, int32_t num_rows, const float* x,
                      float* normed) {
  return status([&] { of(d).norm_stage(weights, layer, norm, num_rows, x, normed); });
}
int32_t sm_stage_attend(sm_decoder* d, int32_t weights, int32_t layer, const sm_batch* batch, const float* normed,
                        float* x) {
  return status([&] { of(d).attend_stage(weights, layer, *batch, normed, x); });
}
int32_t sm_stage_mlp(sm_decoder* d, int32_t weights, int32_t layer, const sm_batch* batch, const float* normed, float* x) {
  return status([&] { of(d).mlp_stage(weights, layer, *batch, normed, x); });
}
int32_t sm_stage_head(sm_decoder* d, int32_t weights, int32_t num_rows, const float* normed, float* logits) {
  return status([&] { of(d).head_stage(weights, num_rows, normed, logits); });
}

void sm_decoder_zero_page(sm_decoder* d, int32_t page) { of(d).zero(page); }
void sm_decoder_copy_page(sm_decoder* d, int32_t from, int32_t to) { of(d).copy(from, to); }
size_t sm_decoder_kv_bytes(const sm_decoder* d) { return reinterpret_cast<const Decoder*>(d)->kv_bytes(); }
void sm_decoder_free(sm_decoder* d) { delete &of(d); }

void sm_dequantize_row(const sm_matrix* m, int32_t row, float* out) { of(m).dequantize_row(row, out); }

int32_t sm_matmul(const sm_matrix* m, const float* x, int32_t num_rows, float* out) {
  return status([&] {
    const PackedMatrix& w = of(m);
    Activations quantized;
    quantized.reserve(num_rows, w.groups() * kGroup);
    quantized.floats = {x, size_t(w.groups()) * kGroup};
    for (int row = 0; row < num_rows; ++row) quantize_row(quantized.floats.row(row), quantized, row);
    MatmulScratch scratch;
    matmul(w, quantized, num_rows, 0, w.num_blocks(), scratch, [&](int block, int row, simd::Floats sixteen) {
      simd::store(out + size_t(row) * w.rows() + block * kBlockRows, sixteen);
    });
  });
}

int32_t sm_norm_quantize(const float* x, const float* weight, int32_t num_rows, int32_t cols, float eps,
                         int8_t* values, float* scales) {
  return status([&] {
    Activations quantized;
    quantized.reserve(num_rows, cols);
    for (int row = 0; row < num_rows; ++row) norm_quantize_row(x + size_t(row) * cols, weight, eps, quantized, row);
    for (int at = 0; at < num_rows * quantized.groups; ++at) {
      const int row = at / quantized.groups, group = at % quantized.groups;
      scales[at] = quantized.scales[quantized.at(row, group)];
      for (int i = 0; i < kQuads; ++i) std::memcpy(values + at * kGroup + 4 * i, quantized.quad(row, group, i), 4);
    }
  });
}

int32_t sm_attend(const float* q, const float* k, const float* v, int32_t num_rows, int32_t end, int32_t num_heads,
                  int32_t num_kv_heads, int32_t head_dim, int32_t window, int32_t kv_format, const int32_t* pages,
                  int32_t num_pages, float* out) {
  return status([&] {
    KvPages kv(KvFormat(kv_format), num_pages, 1, num_kv_heads, head_dim);
    for (int at = 0; at < end * num_kv_heads; ++at) {
      const int token = at / num_kv_heads, head = at % num_kv_heads;
      kv.write(pages[token / kPageTokens], token % kPageTokens, 0, head, k + size_t(at) * head_dim,
               v + size_t(at) * head_dim);
    }
    const size_t stride = size_t(end + kPageTokens - 1) / kPageTokens * kPageTokens;
    AttentionScratch scratch;
    scratch.reserve(1, stride, head_dim);
    for (int at = 0; at < num_rows * num_heads; ++at) {
      const int head = at % num_heads / (num_heads / num_kv_heads), tokens = end - num_rows + at / num_heads + 1;
      const int first = window == 0 ? 0 : std::max(0, tokens - window);
      const Query query{q + size_t(at) * head_dim, out + size_t(at) * head_dim, first, tokens};
      attend(kv, pages, 0, head, &query, 1, scratch);
    }
  });
}

void sm_thread_budget(int32_t most, const double* ran_s, const double* stalled_s, int32_t num_jobs, int32_t* threads) {
  ThreadBudget budget(most);
  double now_s = 0;
  for (int i = 0; i < num_jobs; ++i) {
    threads[i] = budget.threads(now_s);
    now_s += ran_s[i];
    budget.book(ran_s[i], stalled_s[i], now_s);
  }
}
