// Where the time of a step goes.
#pragma once
#include <chrono>

#include "decoder.h"

enum Part { kEmbed, kAttend, kMlp, kNorm, kSample };  // as services/engine/stages.py numbers them

// Meets the other threads, and on thread 0 books the time since the last meeting.
class Decoder::Clock {
 public:
  Clock(ThreadPool& pool, double* seconds) : pool_(pool), seconds_(seconds), last_(now()) {}

  void meet(Part part) {
    pool_.barrier();
    if (seconds_ == nullptr) return;
    const double time = now();
    seconds_[part] += time - last_;
    last_ = time;
  }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  ThreadPool& pool_;
  double* const seconds_;
  double last_;
};
