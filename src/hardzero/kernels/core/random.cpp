#include "random.hpp"

#include <cstring>

namespace hardzero {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

void philox(const std::uint32_t counter[4], const std::uint32_t key[2], std::uint32_t block[4]) {
  std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{c0} * 0xD2511F53u, b = std::uint64_t{c2} * 0xCD9E8D57u;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(b);
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  block[0] = c0, block[1] = c1, block[2] = c2, block[3] = c3;
}

std::uint64_t stream_key(std::uint64_t seed, const char* purpose, std::uint64_t n_bytes, std::uint64_t epoch) {
  std::uint64_t name = 0xCBF29CE484222325u;
  for (std::uint64_t i = 0; i < n_bytes; ++i) name = (name ^ static_cast<unsigned char>(purpose[i])) * 0x100000001B3u;
  return mix((mix((mix(seed + kGolden) ^ name) + kGolden) ^ epoch) + kGolden);
}

std::uint64_t entry_hash(std::uint64_t column, double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return mix((mix(column + kGolden) ^ bits) + kGolden);
}

}  // namespace hardzero
