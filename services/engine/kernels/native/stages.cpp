// One stage of one layer at a time, on rows that the caller holds: for a replay of a step that looks at each outcome. What
// computes is what computes a step, so the stages in a step's order give its bits.
#include <algorithm>

#include "decoder_clock.h"

void Decoder::embed_stage(int weights, const sm_batch& batch, float* x) {
  run_stage(weights, batch, [&](int thread, Clock&) { embed(thread); });
  std::copy_n(x_.data(), size_t(batch.num_rows) * shape_.hidden_size, x);
}

void Decoder::norm_stage(int weights, int layer, int norm, int num_rows, const float* x, float* normed) {
  const WeightSet& set = weight_sets_[weights];
  const std::vector<float>& weight = norm == SM_NORM_FINAL       ? set.norm
                                     : norm == SM_NORM_ATTENTION ? set.layers[layer].attention_norm
                                                                 : set.layers[layer].ffn_norm;
  for (int row = 0; row < num_rows; ++row)
    ::norm_row(x + size_t(row) * shape_.hidden_size, weight.data(), shape_.rms_norm_eps, shape_.hidden_size,
               normed + size_t(row) * shape_.hidden_size);
}

void Decoder::attend_stage(int weights, int layer, const sm_batch& batch, const float* normed, float* x) {
  run_on_rows(weights, batch, normed, x, [&](int thread, Clock& clock) {
    quantize(normed_.data(), *weights_->layers[layer].qkv, hidden_, thread);
    clock.meet(kAttend);
    write_stages(layer, thread, clock);
    attend_stages(layer, thread, clock);
  });
}

void Decoder::mlp_stage(int weights, int layer, const sm_batch& batch, const float* normed, float* x) {
  run_on_rows(weights, batch, normed, x, [&](int thread, Clock& clock) {
    quantize(normed_.data(), *weights_->layers[layer].gate_up, hidden_, thread);
    clock.meet(kMlp);
    mlp_stages(layer, thread, clock);
  });
}

void Decoder::head_stage(int weights, int num_rows, const float* normed, float* logits) {
  const std::vector<int32_t> positions(num_rows);
  sm_batch rows{};
  rows.num_rows = rows.num_samples = num_rows;
  rows.positions = positions.data();
  logits_ = logits;
  batch_ = &rows;
  weights_ = &weight_sets_[weights];
  prepare_head();
  run_stage(weights, rows, [&](int thread, Clock& clock) {
    if (thread == 0) std::copy_n(normed, size_t(num_rows) * shape_.hidden_size, normed_.data());
    clock.meet(kSample);
    quantize(normed_.data(), *weights_->head, hidden_, thread);
    clock.meet(kSample);
    project_head(num_rows, thread);
  });
}

template <class Work>
void Decoder::run_stage(int weights, const sm_batch& batch, Work work) {
  weights_ = &weight_sets_[weights];
  batch_ = &batch;
  reserve(batch);
  pool_.run([&](int thread) {
    Clock clock(pool_, nullptr);
    work(thread, clock);
  });
}

// normed, x: [num_rows, hidden]; x becomes the residual stream after the stage
template <class Work>
void Decoder::run_on_rows(int weights, const sm_batch& batch, const float* normed, float* x, Work work) {
  const size_t count = size_t(batch.num_rows) * shape_.hidden_size;
  run_stage(weights, batch, [&](int thread, Clock& clock) {
    if (thread == 0) {
      std::copy_n(normed, count, normed_.data());
      std::copy_n(x, count, x_.data());
    }
    clock.meet(kNorm);
    work(thread, clock);
  });
  std::copy_n(x_.data(), count, x);
}
