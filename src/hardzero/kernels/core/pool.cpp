#include "pool.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#if defined(_WIN32)
#include <malloc.h>
#else
#include <pthread.h>
#include <sys/mman.h>
#endif

namespace hardzero {
namespace {

constexpr int kSpins = 4000;  // some 20 microseconds: longer than the pause between two passes of one step

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pool {
 public:
  void run(int n_threads, int n_chunks, Chunk chunk, void* context) {
    std::lock_guard<std::mutex> one_job_at_a_time(callers_);
    grow(n_threads - 1);
    // The ticket says which job is on and which of its chunks is next: (generation, chunk). Between jobs the chunk is past
    // the end, so a late worker finds nothing to do.
    const std::uint64_t generation = ++generation_;
    n_chunks_.store(0, std::memory_order_relaxed);
    ticket_.store(generation << 32, std::memory_order_seq_cst);
    chunk_.store(chunk, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    n_helpers_.store(n_threads - 1, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    n_chunks_.store(n_chunks, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard<std::mutex> lock(sleep_);
      wake_.notify_all();
    }
    work(0);
    for (int spin = 0; done_.load(std::memory_order_acquire) < n_chunks; ++spin) {
      if (spin < kSpins) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  // Starts threads that are missing; where the system gives no more, jobs run with those that there are.
  void grow(int n_helpers) {
    try {
      while (n_started_ < n_helpers) {
        std::thread(&Pool::serve, this, n_started_ + 1).detach();
        ++n_started_;
      }
    } catch (const std::system_error&) {
    }
  }

  void serve(int thread) {
    for (;;) {
      int spin = 0;
      while (!available(thread)) {
        if (++spin < kSpins) {
          pause();
          continue;
        }
        std::unique_lock<std::mutex> lock(sleep_);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return available(thread); });
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        spin = 0;
      }
      work(thread);
    }
  }

  bool available(int thread) const {
    return thread <= n_helpers_.load(std::memory_order_relaxed) &&
           static_cast<int>(ticket_.load(std::memory_order_seq_cst) & 0xffffffffu) <
               n_chunks_.load(std::memory_order_seq_cst);
  }

  void work(int thread) {
    for (;;) {
      std::uint64_t ticket = ticket_.load(std::memory_order_seq_cst);
      const int n = n_chunks_.load(std::memory_order_acquire);
      const Chunk chunk = chunk_.load(std::memory_order_relaxed);
      void* context = context_.load(std::memory_order_relaxed);
      const int n_helpers = n_helpers_.load(std::memory_order_relaxed);
      const int next = static_cast<int>(ticket & 0xffffffffu);
      if (next >= n || thread > n_helpers) return;
      // Succeeds only while the same job is on, and then all that was read above belongs to it.
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_seq_cst)) continue;
      chunk(context, next, thread);
      done_.fetch_add(1, std::memory_order_acq_rel);
    }
  }

  std::mutex callers_;
  std::mutex sleep_;
  std::condition_variable wake_;
  int n_started_ = 0;
  std::uint64_t generation_ = 0;
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<int> n_chunks_{0};
  std::atomic<Chunk> chunk_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> n_helpers_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<int> sleepers_{0};
};

std::atomic<Pool*> the_pool{nullptr};

// A forked child has none of its parent's threads: it starts with a pool of its own.
void begin_pool() { the_pool.store(new Pool); }  // never destroyed: its threads end with the process

// Made when the library is loaded, not on first use: a child forked in that moment would wait for its end for ever.
[[maybe_unused]] const bool is_ready = [] {
  begin_pool();
#if !defined(_WIN32)
  pthread_atfork(nullptr, nullptr, begin_pool);
#endif
  return true;
}();

}  // namespace

void run_chunks(int n_threads, int n_chunks, Chunk chunk, void* context) {
  if (n_threads > kMostThreads) n_threads = kMostThreads;
  if (n_threads > 1 && n_chunks > 1) {
    the_pool.load()->run(n_threads, n_chunks, chunk, context);
  } else {
    for (int i = 0; i < n_chunks; ++i) chunk(context, i, 0);
  }
}

double clock_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void* allocate(std::uint64_t bytes) {
  constexpr std::uint64_t huge = std::uint64_t{2} << 20;
  const std::uint64_t unit = bytes >= huge ? huge : 64;
  const std::uint64_t size = (bytes + unit) / unit * unit;
#if defined(_WIN32)
  void* memory = _aligned_malloc(size, 64);
#else
  void* memory = std::aligned_alloc(unit, size);
#if defined(MADV_HUGEPAGE)
  if (memory && unit == huge) madvise(memory, size, MADV_HUGEPAGE);
#endif
#endif
  if (!memory) throw std::bad_alloc();
  std::memset(memory, 0, size);
  return memory;
}

void release(void* memory) noexcept {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace hardzero
