// One pool of threads for the whole process: threads spin for a moment, then sleep.
//
// A job is a number of chunks. The caller works on chunks itself and waits only for chunks that another thread has begun,
// so a worker that the operating system has not scheduled delays nobody, and a job never stands still on busy cores.
// Which thread does a chunk never matters to its result.
#pragma once

#include <cstdint>

namespace hardzero {

using Chunk = void (*)(void* context, int chunk, int thread);

// Runs chunk(context, 0 .. n_chunks - 1, thread) on up to n_threads threads, the caller (thread 0) included. Calls from
// several threads at once take turns.
void run_chunks(int n_threads, int n_chunks, Chunk chunk, void* context);

constexpr int kMostThreads = 1024;

// Nanoseconds of a clock that never goes back.
double clock_ns();

// Zeroed memory, aligned to 64 bytes, in huge pages where it is large and the system has them.
void* allocate(std::uint64_t bytes);
void release(void* memory) noexcept;

}  // namespace hardzero
