// Numbers of one type as a model takes them in another.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/feed/feed.h"

namespace tandem {
namespace {

constexpr DType number_types[] = {DType::boolean, DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32,
                                  DType::uint32, DType::int64, DType::uint64, DType::float32, DType::float64};

// The ends of a type, what float32 and float64 cannot hold, and fractions; of these what From and To both take.
template <class From, class To>
std::vector<From> extremes() {
  std::vector<From> all{std::numeric_limits<From>::lowest(), std::numeric_limits<From>::max(), From{0}, From{1}};
  if constexpr (std::is_floating_point_v<From>) {
    for (const double v : {0.1, -0.0, 1e-310, 1e-40, 16777217.0, 9007199254740993.0, 3e38}) all.push_back(static_cast<From>(v));
  } else if constexpr (!std::is_same_v<From, bool>) {
    for (const std::int64_t v : {std::int64_t{-1}, std::int64_t{77}, std::int64_t{16777217}, (std::int64_t{1} << 53) + 1})
      if (std::in_range<From>(v)) all.push_back(static_cast<From>(v));
    if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) std::erase_if(all, [](From v) { return !std::in_range<To>(v); });
  }
  if constexpr (std::is_same_v<From, double> && std::is_same_v<To, float>)
    std::erase_if(all, [](From v) { return std::abs(v) > static_cast<double>(std::numeric_limits<float>::max()); });
  while (all.size() % 3 != 0) all.push_back(From{1});
  return all;
}

// From every type to every other, in a row and with the channels turned: what one cast makes of it, to the bit.
TEST(Feed, NumbersBecomeThoseOfAnotherTypeAsOneCastDoes) {
  for (const DType have : number_types)
    for (const DType want : number_types) {
      if (is_float(have) && !is_float(want)) continue;  // refused
      SCOPED_TRACE(concat(name_of(have), " to ", name_of(want)));
      visit_number(have, [&]<class From>() {
        visit_number(want, [&]<class To>() {
          const std::vector<From> from = extremes<From, To>();
          const auto n = static_cast<std::int64_t>(from.size()), pixels = n / 3;
          Tensor row(TensorType{have, {1, n}}), image(TensorType{have, {1, 1, pixels, 3}});
          std::copy(from.begin(), from.end(), row.write<From>().begin());
          std::copy(from.begin(), from.end(), image.write<From>().begin());
          MemoryDataset rows("rows"), images("images");
          rows.add({.name = "x"}, row);
          images.add({.name = "x", .axes = Axes::channels_last}, image);
          const std::unique_ptr<To[]> out(new To[from.size()]);
          std::byte* to = reinterpret_cast<std::byte*>(out.get());
          const std::int64_t sample = 0;
          Feed(rows, {{.name = "x", .sample = {want, {n}}}}, {}, 1).fill({&sample, 1}, 0, false, {&to, 1});
          for (std::size_t i = 0; i < from.size(); ++i) {
            const To expected = static_cast<To>(from[i]);
            EXPECT_EQ(std::memcmp(&out[i], &expected, sizeof(To)), 0) << i << ": " << +from[i] << " became " << +out[i];
          }
          Feed(images, {{.name = "x", .sample = {want, {3, 1, pixels}}}}, {}, 1).fill({&sample, 1}, 0, false, {&to, 1});
          for (std::int64_t i = 0; i < n; ++i) {
            const auto place = static_cast<std::size_t>(i % 3 * pixels + i / 3);
            const To expected = static_cast<To>(from[static_cast<std::size_t>(i)]);
            EXPECT_EQ(std::memcmp(&out[place], &expected, sizeof(To)), 0) << "turned, " << i;
          }
        });
      });
    }
}

}  // namespace
}  // namespace tandem
