// Counter-based random numbers: the bits that hardzero/random.py defines.
#pragma once

#include <cstdint>

namespace hardzero {

void philox(const std::uint32_t counter[4], const std::uint32_t key[2], std::uint32_t block[4]);
std::uint64_t stream_key(std::uint64_t seed, const char* purpose, std::uint64_t n_bytes, std::uint64_t epoch);
// Hash of an entry that is not zero; a row's hash is the sum of its entries'.
std::uint64_t entry_hash(std::uint64_t column, double value);

}  // namespace hardzero
