// Memory for weights: many matrices share large pieces on huge pages.
//
// A matrix of a small model is smaller than a huge page; on 4 kB pages of its own it is read at half the speed. So
// matrices take their place in slabs, one after the other. A slab lives as long as one of its pieces does.
#pragma once
#include <memory>
#include <mutex>

#include "memory.h"

// Zeroed bytes that begin at a cache line.
class Piece {
 public:
  Piece() = default;
  explicit Piece(size_t num_bytes);

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return num_bytes_; }

 private:
  friend class Arena;
  std::shared_ptr<Buffer<uint8_t>> slab_;
  uint8_t* data_ = nullptr;
  size_t num_bytes_ = 0;
};

class Arena {
 public:
  // May be called by any thread.
  void take(size_t num_bytes, Piece& piece) {
    const size_t room = room_for(num_bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (slab_ == nullptr || used_ + room > slab_->size()) {
      slab_ = std::make_shared<Buffer<uint8_t>>(room > kSlab ? room : kSlab);
      used_ = 0;
    }
    piece.slab_ = slab_;
    piece.data_ = slab_->data() + used_;
    piece.num_bytes_ = num_bytes;
    used_ += room;
  }

  static Arena& of_process() {
    static Arena arena;
    return arena;
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  // Each piece alone and not a byte too long, so that AddressSanitizer sees what reaches beyond its end.
  static constexpr size_t kSlab = 0;
  static size_t room_for(size_t num_bytes) { return num_bytes; }
#else
  static constexpr size_t kSlab = size_t{32} << 20;  // taken from the system as it is written

  // With room for a vector read at the last byte, up to the next piece's cache line.
  static size_t room_for(size_t num_bytes) { return (num_bytes + 64 + 63) & ~size_t{63}; }
#endif
  std::mutex mutex_;
  std::shared_ptr<Buffer<uint8_t>> slab_;
  size_t used_ = 0;
};

inline Piece::Piece(size_t num_bytes) { Arena::of_process().take(num_bytes, *this); }
