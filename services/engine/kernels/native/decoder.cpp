#include "decoder.h"

#include <algorithm>

#include "decoder_clock.h"

namespace {

std::vector<float> copied(const float* values, int count) {
  return values == nullptr ? std::vector<float>() : std::vector<float>(values, values + count);
}

simd::Floats silu(simd::Floats x) { return x / (simd::splat(1.0f) + simd::exp(simd::splat(0) - x)); }

}  // namespace

Decoder::Decoder(const sm_shape& shape, const float* cos, const float* sin)
    : shape_(shape),
      pool_(shape.num_threads),
      cos_(cos, cos + size_t(shape.num_positions) * shape.head_dim / 2),
      sin_(sin, sin + size_t(shape.num_positions) * shape.head_dim / 2),
      kv_(KvFormat(shape.kv_format), shape.num_pages, shape.num_layers, shape.num_kv_heads, shape.head_dim),
      scratch_(shape.num_threads) {
  for (WeightSet& weights : weight_sets_) weights.layers.resize(shape.num_layers);
}

void Decoder::set_layer(int weights, int index, const sm_layer& from) {
  const auto matrix = [](const sm_matrix* m) { return reinterpret_cast<const PackedMatrix*>(m); };
  Layer& layer = weight_sets_[weights].layers[index];
  layer.qkv = matrix(from.qkv);
  layer.output = matrix(from.output);
  layer.gate_up = matrix(from.gate_up);
  layer.down = matrix(from.down);
  layer.window = from.window;
  layer.attention_norm = copied(from.attention_norm, shape_.hidden_size);
  layer.ffn_norm = copied(from.ffn_norm, shape_.hidden_size);
  layer.qkv_bias = copied(from.qkv_bias, qkv_width());
  layer.output_bias = copied(from.output_bias, shape_.hidden_size);
  layer.q_norm = copied(from.q_norm, shape_.head_dim);
  layer.k_norm = copied(from.k_norm, shape_.head_dim);
}

void Decoder::set_ends(int weights, const PackedMatrix* embedding, const PackedMatrix* head, const float* norm) {
  weight_sets_[weights].embedding = embedding;
  weight_sets_[weights].head = head;
  weight_sets_[weights].norm = copied(norm, shape_.hidden_size);
  weight_sets_[weights].screen = nullptr;
}

void Decoder::set_adapter(int adapter, const sm_lora* parts, int num_parts) {
  const int hidden = shape_.hidden_size, ffn = shape_.ffn_size, kv = shape_.num_kv_heads * shape_.head_dim;
  const int rows[kNumTargets] = {attended_width(), kv, kv, hidden, ffn, ffn, hidden};
  const int cols[kNumTargets] = {hidden, hidden, hidden, attended_width(), hidden, hidden, ffn};
  std::vector<Adapters::Layer> layers(num_parts == 0 ? 0 : shape_.num_layers);
  for (const sm_lora* part = parts; part != parts + num_parts; ++part)
    layers[part->layer][part->target] = LoraPart(*part, rows[part->target], cols[part->target]);
  adapters_.set(adapter, std::move(layers));
}

void Decoder::step(int weights, const sm_batch& batch, float* logits, double* seconds) {
  weights_ = &weight_sets_[weights];
  batch_ = &batch;
  logits_ = logits;
  reserve(batch);
  choose_tasks(batch);
  prepare_head();
  pool_.run([&](int thread) {
    Clock clock(pool_, thread == 0 ? seconds : nullptr);
    run_stages(thread, clock);
  });
  if (num_screened_ > 0)
    weights_->screen->learn(num_reaching_, int64_t(num_screened_) * weights_->head->num_blocks());
}

size_t Decoder::read_pass(int weights) {
  struct Part { const uint8_t* from; size_t num_bytes; };
  const WeightSet& set = weight_sets_[weights];
  std::vector<Part> parts;
  const auto add = [&](const PackedMatrix* w) { parts.push_back({w->block(0, 0), w->num_bytes()}); };
  for (const Layer& layer : set.layers)
    for (const PackedMatrix* w : {layer.qkv, layer.output, layer.gate_up, layer.down}) add(w);
  if (set.screen != nullptr) parts.push_back({set.screen->data(), set.screen->num_bytes()});
  else add(set.head);
  std::atomic<size_t> num_bytes{0};
  pool_.run([&](int thread) {
    for (const Part& part : parts) {
      constexpr int kUnit = 128;
      const Share units = share(int(part.num_bytes / kUnit), thread);
      const size_t mine = size_t(units.end - units.begin) * kUnit;
      read_.fetch_xor(_mm256_extract_epi64(read_all(part.from + size_t(units.begin) * kUnit, mine), 0));
      num_bytes += mine;
    }
  });
  return num_bytes;
}

void Decoder::reserve(const sm_batch& batch) {
  const size_t rows = batch.num_rows;
  x_.reserve(rows * shape_.hidden_size);
  qkv_.reserve(rows * qkv_width());
  attended_.reserve(rows * attended_width());
  gated_.reserve(rows * shape_.ffn_size);
  normed_.reserve(rows * shape_.hidden_size);
  adapters_.begin(batch.adapters, batch.num_rows);
  hidden_.reserve(batch.num_rows, shape_.hidden_size);
  attended_q_.reserve(batch.num_rows, attended_width());
  gated_q_.reserve(batch.num_rows, shape_.ffn_size);
  hidden_.floats = {normed_.data(), size_t(shape_.hidden_size)};
  attended_q_.floats = {attended_.data(), size_t(attended_width())};
  gated_q_.floats = {gated_.data(), size_t(shape_.ffn_size)};
  int longest = 0;
  for (int row = 0; row < batch.num_rows; ++row) longest = std::max(longest, batch.positions[row] + 1);
  max_tokens_ = size_t(longest + kPageTokens - 1) / kPageTokens * kPageTokens;
  const int tiles = int(kScoreBytes / (sizeof(float) * kTileQueries * max_tokens_));
  max_queries_ = kTileQueries * std::clamp(tiles, 1, kMaxTiles);
  for (Scratch& scratch : scratch_) scratch.attention.reserve(max_queries_, max_tokens_, shape_.head_dim);
  norms_alone_ = attends_alone_ = false;
}

// Threads wait for each other some hundred times a step; for a few rows that is dearer than doing some things twice.
void Decoder::choose_tasks(const sm_batch& batch) {
  norms_alone_ = batch.num_rows <= kFewRows && !adapters_.are_used();
  attends_alone_ = true;
  for (int row = 1; row < batch.num_rows; ++row) attends_alone_ &= batch.sequences[row] != batch.sequences[row - 1];
  drops_rows_ = batch.num_samples < batch.num_rows && !attends_alone_ && !adapters_.are_used();
  if (!norms_alone_) return;
  for (Scratch& scratch : scratch_) {
    scratch.normed.reserve(size_t(batch.num_rows) * shape_.hidden_size);
    scratch.hidden.reserve(batch.num_rows, shape_.hidden_size);
    scratch.hidden.floats = {scratch.normed.data(), size_t(shape_.hidden_size)};
  }
}

void Decoder::run_stages(int thread, Clock& clock) {
  embed(thread);
  clock.meet(kEmbed);
  for (int index = 0; index < shape_.num_layers; ++index) {
    const Layer& layer = weights_->layers[index];
    norm(layer.attention_norm, *layer.qkv, thread, clock);
    write_stages(index, thread, clock);
    if (drops_rows_ && index + 1 == shape_.num_layers) {
      if (thread == 0) keep_sampled_rows();
      clock.meet(kAttend);
      if (batch_->num_rows == 0) return;
    }
    attend_stages(index, thread, clock);
    norm(layer.ffn_norm, *layer.gate_up, thread, clock);
    mlp_stages(index, thread, clock);
  }
  head_stages(thread, clock);
}

// Of the last layer, the rows whose logits nobody wants have keys and values by now, and that is all that is needed.
void Decoder::keep_sampled_rows() {
  sampled_ = *batch_;
  sampled_.num_rows = batch_->num_samples;
  sampled_rows_.resize(size_t(3) * sampled_.num_rows);
  int32_t* positions = sampled_rows_.data();
  int32_t* sequences = positions + sampled_.num_rows;
  int32_t* rows = sequences + sampled_.num_rows;
  for (int to = 0; to < sampled_.num_rows; ++to) {
    const int from = batch_->sample_rows[to];
    positions[to] = batch_->positions[from], sequences[to] = batch_->sequences[from], rows[to] = to;
    if (from == to) continue;
    std::copy_n(x_.data() + size_t(from) * shape_.hidden_size, shape_.hidden_size,
                x_.data() + size_t(to) * shape_.hidden_size);
    std::copy_n(qkv_.data() + size_t(from) * qkv_width(), attended_width(), qkv_.data() + size_t(to) * qkv_width());
  }
  sampled_.positions = positions, sampled_.sequences = sequences, sampled_.sample_rows = rows;
  batch_ = &sampled_;
}

// Keys and values of the rows, where these are not written by the one that attends.
void Decoder::write_stages(int index, int thread, Clock& clock) {
  shrink(index, kQ, 3, normed_.data(), shape_.hidden_size, thread, clock);
  project_qkv(index, thread);
  clock.meet(kAttend);
  if (!attends_alone_) {
    rotate_and_write(index, thread);
    clock.meet(kAttend);
  }
}

void Decoder::attend_stages(int index, int thread, Clock& clock) {
  const Layer& layer = weights_->layers[index];
  attend(index, thread);
  clock.meet(kAttend);
  shrink(index, kOutput, 1, attended_.data(), attended_width(), thread, clock);
  project_onto_rows(*layer.output, attended_q_, layer.output_bias, index, kOutput, thread);
  clock.meet(kAttend);
}

void Decoder::mlp_stages(int index, int thread, Clock& clock) {
  const Layer& layer = weights_->layers[index];
  shrink(index, kGate, 2, normed_.data(), shape_.hidden_size, thread, clock);
  gated(index, thread);
  clock.meet(kMlp);
  shrink(index, kDown, 1, gated_.data(), shape_.ffn_size, thread, clock);
  project_onto_rows(*layer.down, gated_q_, {}, index, kDown, thread);
  clock.meet(kMlp);
}

void Decoder::embed(int thread) {
  for (int row = thread; row < batch_->num_rows; row += pool_.num_threads())
    weights_->embedding->dequantize_row(batch_->token_ids[row], x_.data() + size_t(row) * shape_.hidden_size);
}

// The first half of what adapters add to `count` operations from `first` on, which read the rows `x`.
void Decoder::shrink(int index, Target first, int count, const float* x, size_t stride, int thread, Clock& clock) {
  if (!adapters_.are_used()) return;
  adapters_.shrink(index, first, count, x, stride, thread, pool_.num_threads());
  clock.meet(first < kGate ? kAttend : kMlp);
}

void Decoder::norm(const std::vector<float>& weight, const PackedMatrix& consumer, int thread, Clock& clock) {
  if (norms_alone_) {
    Scratch& mine = scratch_[thread];
    for (int row = 0; row < batch_->num_rows; ++row)
      norm_row(row, weight.data(), consumer, row, mine.normed.data(), mine.hidden);
    return;
  }
  for (int row = thread; row < batch_->num_rows; row += pool_.num_threads())
    norm_row(row, weight.data(), consumer, row, normed_.data(), hidden_);
  clock.meet(kNorm);
}

void Decoder::norm_row(int from, const float* weight, const PackedMatrix& consumer, int to, float* normed,
                       Activations& hidden) {
  const float* row = x_.data() + size_t(from) * shape_.hidden_size;
  if (consumer.takes_floats() || adapters_.has(from))
    ::norm_row(row, weight, shape_.rms_norm_eps, shape_.hidden_size, normed + size_t(to) * shape_.hidden_size);
  if (!consumer.takes_floats()) norm_quantize_row(row, weight, shape_.rms_norm_eps, hidden, to);
}

// Groups [begin, end) of a row.
void Decoder::quantize_groups(const float* row, const PackedMatrix& consumer, Activations& out, int index, int begin,
                              int end) {
  if (consumer.takes_floats()) return;
  for (int group = begin; group < end; ++group) quantize_group(row + group * kGroup, out, index, group);
}

void Decoder::quantize(const float* rows, const PackedMatrix& consumer, Activations& out, int thread) {
  if (consumer.takes_floats()) return;
  const int groups = consumer.groups();
  const Share mine = share(batch_->num_rows * groups, thread);  // by group, so that a single row is shared as well
  for (int at = mine.begin; at < mine.end; ++at)
    quantize_group(rows + size_t(at) * kGroup, out, at / groups, at % groups);
}

void Decoder::project_qkv(int index, int thread) {
  const Layer& layer = weights_->layers[index];
  const PackedMatrix& w = *layer.qkv;
  const int q_blocks = shape_.num_heads * shape_.head_dim / kBlockRows;
  const int kv_blocks = shape_.num_kv_heads * shape_.head_dim / kBlockRows;
  const Share blocks = share(w.num_blocks(), thread);
  matmul(w, normed(thread), batch_->num_rows, blocks.begin, blocks.end, scratch_[thread].matmul,
         [&](int block, int row, simd::Floats sixteen) {
    if (!layer.qkv_bias.empty()) sixteen = sixteen + simd::load(layer.qkv_bias.data() + block * kBlockRows);
    if (adapters_.has(row)) {
      const int offset = block < q_blocks ? 0 : 1 + (block - q_blocks) / kv_blocks;  // q, k or v
      const int first = offset == 0 ? 0 : q_blocks + (offset - 1) * kv_blocks;
      sixteen = adapters_.added(sixteen, index, kQ, offset, row, block - first);
    }
    simd::store(qkv_.data() + size_t(row) * w.rows() + block * kBlockRows, sixteen);
  });
}

void Decoder::project_onto_rows(const PackedMatrix& w, const Activations& x, const std::vector<float>& bias, int index,
                                Target target, int thread) {
  const Share blocks = share(w.num_blocks(), thread);
  matmul(w, x, batch_->num_rows, blocks.begin, blocks.end, scratch_[thread].matmul,
         [&](int block, int row, simd::Floats sixteen) {
    float* at = x_.data() + size_t(row) * shape_.hidden_size + block * kBlockRows;
    if (!bias.empty()) sixteen = sixteen + simd::load(bias.data() + block * kBlockRows);
    if (adapters_.has(row)) sixteen = adapters_.added(sixteen, index, target, 0, row, block);
    simd::store(at, simd::load(at) + sixteen);
  });
}

void Decoder::rotate_and_write(int index, int thread) {
  for (int row = thread; row < batch_->num_rows; row += pool_.num_threads()) {
    rotate_queries(index, row, 0, shape_.num_heads);
    rotate_and_write_keys(index, row, 0, shape_.num_kv_heads);
  }
}

// Query heads [begin, end) of a row.
void Decoder::rotate_queries(int index, int row, int begin, int end) {
  const int head_dim = shape_.head_dim;
  const size_t at = size_t(batch_->positions[row]) * head_dim / 2;
  const std::vector<float>& norm = weights_->layers[index].q_norm;
  const float query_scale = 1.0f / std::sqrt(float(head_dim));
  for (int head = begin; head < end; ++head) {
    float* x = qkv_.data() + size_t(row) * qkv_width() + head * head_dim;
    if (!norm.empty()) norm_head(x, norm.data(), shape_.rms_norm_eps, head_dim);
    rotate(x, cos_.data() + at, sin_.data() + at, head_dim);
    scale_head(x, query_scale, head_dim);
  }
}

// KV heads [begin, end) of a row.
void Decoder::rotate_and_write_keys(int index, int row, int begin, int end) {
  const int head_dim = shape_.head_dim, position = batch_->positions[row];
  const size_t at = size_t(position) * head_dim / 2;
  const std::vector<float>& norm = weights_->layers[index].k_norm;
  const int32_t* pages = batch_->pages + batch_->page_starts[batch_->sequences[row]];
  float* keys = qkv_.data() + size_t(row) * qkv_width() + shape_.num_heads * head_dim;
  const float* values = keys + shape_.num_kv_heads * head_dim;
  for (int head = begin; head < end; ++head) {
    float* x = keys + head * head_dim;
    if (!norm.empty()) norm_head(x, norm.data(), shape_.rms_norm_eps, head_dim);
    rotate(x, cos_.data() + at, sin_.data() + at, head_dim);
    kv_.write(pages[position / kPageTokens], position % kPageTokens, index, head, x, values + head * head_dim);
  }
}

// A task is a KV head for a crowd of rows of one sequence.
void Decoder::attend(int index, int thread) {
  const int group = shape_.num_heads / shape_.num_kv_heads, rows_per_task = std::max(1, max_queries_ / group);
  int task = 0;
  for (int row = 0, end = 0; row < batch_->num_rows; row = end) {
    for (end = row + 1; end < batch_->num_rows && end - row < rows_per_task; ++end)
      if (batch_->sequences[end] != batch_->sequences[row]) break;
    for (int head = 0; head < shape_.num_kv_heads; ++head)
      if (task++ % pool_.num_threads() == thread) attend(index, head, row, end, thread);
  }
}

// The query heads of one KV head, for rows [begin, end) of one sequence.
void Decoder::attend(int index, int head, int begin, int end, int thread) {
  const int head_dim = shape_.head_dim, group = shape_.num_heads / shape_.num_kv_heads;
  if (attends_alone_) {
    rotate_queries(index, begin, head * group, (head + 1) * group);
    rotate_and_write_keys(index, begin, head, head + 1);
  }
  const int window = weights_->layers[index].window;
  const int32_t* pages = batch_->pages + batch_->page_starts[batch_->sequences[begin]];
  Query queries[kMaxQueries];
  int count = 0;
  for (int at = 0; at < (end - begin) * group; ++at) {
    const size_t row = begin + at / group, query_head = head * group + at % group;
    const int tokens = batch_->positions[row] + 1;
    queries[count++] = {qkv_.data() + row * qkv_width() + query_head * head_dim,
                        attended_.data() + row * attended_width() + query_head * head_dim,
                        window == 0 ? 0 : std::max(0, tokens - window), tokens};
    if (count < max_queries_ && at + 1 < (end - begin) * group) continue;
    ::attend(kv_, pages, index, head, queries, count, scratch_[thread].attention);
    count = 0;
  }
  const int groups = group * head_dim / kGroup;
  for (int row = begin; row < end; ++row)
    quantize_groups(attended_.data() + size_t(row) * attended_width(), *weights_->layers[index].output, attended_q_, row,
                    head * groups, (head + 1) * groups);
}

// SiLU(gate) × up. The packed matrix alternates: 16 rows of gate, the same 16 rows of up.
void Decoder::gated(int index, int thread) {
  const Layer& layer = weights_->layers[index];
  const Share groups = share(shape_.ffn_size / kGroup, thread);
  constexpr int kBlocks = kGroup / kBlockRows;
  matmul_pairs(*layer.gate_up, normed(thread), batch_->num_rows, kBlocks * groups.begin, kBlocks * groups.end, scratch_[thread].matmul,
               [&](int block, int row, simd::Floats gate, simd::Floats up) {
    if (adapters_.has(row)) {
      gate = adapters_.added(gate, index, kGate, 0, row, block);
      up = adapters_.added(up, index, kGate, 1, row, block);
    }
    simd::store(gated_.data() + size_t(row) * shape_.ffn_size + block * kBlockRows, silu(gate) * up);
  });
  for (int row = 0; row < batch_->num_rows; ++row)
    quantize_groups(gated_.data() + size_t(row) * shape_.ffn_size, *layer.down, gated_q_, row, groups.begin, groups.end);
}
