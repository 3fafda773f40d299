// Threads that run one job together and meet at barriers inside it.
//
// Waiting spins for a moment, then yields, then (between jobs) sleeps: pure spinning collapses as soon as another
// process wants the processor, and sleeping at each of some 300 barriers a step costs more than the step.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "simd.h"

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads) : num_threads_(num_threads) {
    for (int thread = 1; thread < num_threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  }

  ~ThreadPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  int num_threads() const { return num_threads_; }

  // Run `job(thread)` on every thread, the caller being thread 0, and return when all are done.
  void run(const std::function<void(int)>& job) {
    if (num_threads_ == 1) return job(0);
    job_ = &job;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      number_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job(0);
    barrier();
  }

  // Wait until every thread of the job has come here.
  void barrier() {
    if (num_threads_ == 1) return;
    const uint32_t phase = phase_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins)
      spins < kSpins ? simd::pause() : void(sched_yield());
  }

 private:
  static constexpr int kSpins = 3000, kIdleSpins = 20000;

  void work(int thread) {
    pin(thread);
    for (uint32_t seen = 0; wait_for_job(seen); ++seen) {
      (*job_)(thread);
      barrier();
    }
  }

  // False when the pool ends.
  bool wait_for_job(uint32_t seen) {
    for (int spins = 0; spins < kIdleSpins; ++spins) {
      if (number_.load(std::memory_order_acquire) != seen) return true;
      simd::pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || number_.load(std::memory_order_acquire) != seen; });
    return !stop_;
  }

  // The n-th worker stays on the n-th processor that this process may use, so that its caches stay warm.
  static void pin(int thread) {
    cpu_set_t allowed, chosen;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    int seen = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed) || seen++ != thread) continue;
      CPU_ZERO(&chosen);
      CPU_SET(cpu, &chosen);
      sched_setaffinity(0, sizeof chosen, &chosen);
      return;
    }
  }

  const int num_threads_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<uint32_t> number_{0}, phase_{0};
  std::atomic<int> arrived_{0};
};
