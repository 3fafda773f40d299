// Threads that run one job together and meet at barriers inside it.
//
// Waiting spins for a moment, then yields, then sleeps: pure spinning collapses as soon as another process wants the
// processor, and sleeping at each of some 300 barriers a step costs more than the step. Threads are not bound to
// processors: beside a busy process the system can then put them where there is room.
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <thread>
#include <vector>

#include "simd.h"
#include "thread_budget.h"

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads) : budget_(std::min<int>(num_threads, kThreadMask)) {
    for (int thread = 1; thread < num_threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  }

  ~ThreadPool() {
    stop_ = true;
    announce();
    for (std::thread& worker : workers_) worker.join();
  }

  // Threads of the job that runs.
  int num_threads() const { return num_threads_; }

  // Run `job(thread)` on as many threads as the budget allows, the caller being thread 0; returns when all are done.
  void run(const std::function<void(int)>& job) {
    const double start_s = now_s();
    const int allowed = budget_.threads(start_s);
    num_threads_ = std::min(allowed, limit_);
    if (num_threads_ == 1) return job(0);
    job_ = &job;
    stalled_ns_ = 0;
    announce();
    job(0);
    barrier();
    const double end_s = now_s();
    if (num_threads_ == allowed) budget_.book(end_s - start_s, 1e-9 * double(stalled_ns_.load()), end_s);
  }

  // At most so many threads from the next job on; the others stay parked. Between jobs only.
  void limit(int most) { limit_ = std::max(1, most); }

  // Wait until every thread of the job has come here.
  void barrier() {
    if (num_threads_ == 1) return;
    const uint32_t phase = phase_.value.load(std::memory_order_acquire);
    const int others = num_threads_ - 1;  // read before arriving: after it, the next job may have another number
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == others) {
      arrived_.store(0, std::memory_order_relaxed);
      change(phase_, phase + 1);
    } else if (!spin(phase_, phase, kSpins)) {
      const double start_s = now_s();
      wait(phase_, phase);
      stalled_ns_ += int64_t(1e9 * (now_s() - start_s));
    }
  }

 private:
  // Some 20 µs and 200 µs: more than threads of a quiet machine wait for each other, and than the time between two steps.
  static constexpr int kSpins = 1000, kIdleSpins = 10000, kYields = 20;
  static constexpr uint32_t kThreadBits = 10, kThreadMask = (1u << kThreadBits) - 1;

  // A number that threads wait to see changed.
  struct Signal {
    std::atomic<uint32_t> value{0};
    std::atomic<int> sleepers{0};
  };

  static void change(Signal& signal, uint32_t value) {
    signal.value.store(value);
    if (signal.sleepers.load() > 0) syscall(SYS_futex, &signal.value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

  // Whether it has changed from `seen` within so many spins.
  static bool spin(const Signal& signal, uint32_t seen, int spins) {
    for (; spins > 0; --spins) {
      if (signal.value.load(std::memory_order_acquire) != seen) return true;
      simd::pause();
    }
    return false;
  }

  static void wait(Signal& signal, uint32_t seen) {
    for (int yields = 0; yields < kYields; ++yields) {
      if (signal.value.load(std::memory_order_acquire) != seen) return;
      sched_yield();
    }
    ++signal.sleepers;
    while (signal.value.load() == seen)
      syscall(SYS_futex, &signal.value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    --signal.sleepers;
  }

  static double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // A job's number, and below it how many threads it has: a worker learns both at once, and one that the job does not
  // count with looks at nothing else, since the job may be over already.
  void announce() { change(job_signal_, ++num_jobs_ << kThreadBits | uint32_t(num_threads_)); }

  void work(int thread) {
    for (uint32_t seen = 0;;) {
      if (!spin(job_signal_, seen, kIdleSpins)) wait(job_signal_, seen);
      if (stop_) return;
      seen = job_signal_.value.load();
      if (uint32_t(thread) >= (seen & kThreadMask)) continue;
      (*job_)(thread);
      barrier();
    }
  }

  ThreadBudget budget_;
  std::vector<std::thread> workers_;
  std::atomic<bool> stop_{false};
  int num_threads_ = 1, limit_ = kThreadMask;
  uint32_t num_jobs_ = 0;
  const std::function<void(int)>* job_ = nullptr;
  Signal job_signal_, phase_;
  std::atomic<int> arrived_{0};
  std::atomic<int64_t> stalled_ns_{0};
};
