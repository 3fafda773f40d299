// How many threads the next job gets on a machine that others use as well.
//
// Threads meet some 300 times a step. Where another process holds the processor of one of them, all wait for it each time
// it loses its turn, and several threads are slower than one. Results do not depend on the number of threads, so it may
// change from job to job: fewer after a job that mostly waited, all again on trial after a pause that doubles each time
// the trial fails.
#pragma once
#include <algorithm>

class ThreadBudget {
 public:
  explicit ThreadBudget(int most) : most_(most), threads_(most) {}

  int threads(double now_s) {
    if (now_s >= retry_at_s_) threads_ = most_;
    return threads_;
  }

  // A job took `ran_s` on threads() threads, which together waited `stalled_s` of it for one that did not run.
  void book(double ran_s, double stalled_s, double now_s) {
    if (threads_ == 1) return;
    if (stalled_s > kMostStalled * threads_ * ran_s) {
      threads_ = std::max(1, std::min(threads_ - 1, int(threads_ - stalled_s / ran_s)));
      retry_at_s_ = now_s + pause_s_;
      pause_s_ = std::min(2 * pause_s_, kLongestPause);
      calm_ = 0;
    } else if (threads_ == most_ && ++calm_ >= kCalmJobs) {
      pause_s_ = kShortestPause;
    }
  }

 private:
  static constexpr double kMostStalled = 0.2, kShortestPause = 0.05, kLongestPause = 2.0;
  static constexpr int kCalmJobs = 8;

  const int most_;
  int threads_, calm_ = 0;  // calm: jobs in a row on all threads that did not stall
  double retry_at_s_ = 0, pause_s_ = kShortestPause;
};
