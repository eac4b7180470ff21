// Uniform random numbers in [0, 1) that belong to rows, as hardzero/random.py defines them, for each instruction-set level.
#pragma once

#include <cstdint>

namespace hardzero {

#define HARDZERO_DECLARE(level)                                                                                           \
  namespace level {                                                                                                       \
  /* Those of the first n_columns columns of each row. */                                                                 \
  void uniforms(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, std::int64_t n_columns,            \
                float* numbers);                                                                                          \
  /* Those of the entries of CSR rows. */                                                                                 \
  void uniforms_at(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, const std::int32_t* indptr,     \
                   const std::int32_t* indices, float* numbers);                                                          \
  void uniforms_at(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, const std::int64_t* indptr,     \
                   const std::int64_t* indices, float* numbers);                                                          \
  }
HARDZERO_DECLARE(v2)
HARDZERO_DECLARE(v3)
HARDZERO_DECLARE(v4)
HARDZERO_DECLARE(neon)
HARDZERO_DECLARE(generic)
#undef HARDZERO_DECLARE

}  // namespace hardzero
