// Random numbers that are the same on every platform: Philox4x32-10 and nothing but integer arithmetic after it.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tandem {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// Turns a name into a stream number, the same on every platform.
std::uint64_t stream_of(std::string_view name);

// One sequence of numbers, chosen by a seed and a stream number.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::uint32_t next();
  double uniform() { return next() * 0x1p-32; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal();                     // mean 0, variance 1, within ±6: a sum of twelve uniforms
  std::int64_t below(std::int64_t n);  // 0..n-1

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

// Fisher and Yates' shuffle of values[0..n).
template <class Values>
void shuffle(Values& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
}

}  // namespace tandem
