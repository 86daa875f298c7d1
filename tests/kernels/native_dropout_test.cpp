#include <array>

#include "kernels/cpu/isa.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

// Known answers that the authors of Philox publish with their library: philox4x32, 10 rounds.
struct KnownAnswer {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> words;
};
const KnownAnswer known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

// The generator itself, word for word.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}
std::uint32_t philox_word(std::uint64_t element, const vector::PhiloxState& s) {
  const std::uint64_t number = element / 4;
  return philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), s.counter_high[0], s.counter_high[1]},
                {s.key[0], s.key[1]})[element % 4];
}

TEST(NativeDropout, PhiloxGivesTheKnownAnswers) {
  for (const KnownAnswer& a : known) EXPECT_EQ(philox(a.counter, a.key), a.words);
  for (const char* isa : isas) {
    const WithIsa with(isa);
    const vector::Table& table = vector_table();
    std::uint32_t words[4];
    table.philox_run(words, 0, 4, {{0, 0}, {0, 0}});
    for (int w = 0; w < 4; ++w) EXPECT_EQ(words[w], known[0].words[w]) << isa;
    const vector::PhiloxState state{{123, 456}, {7, 8}};
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, (std::int64_t{1} << 34) - 3}) {
      std::vector<std::uint32_t> run(200), at(200);
      std::vector<std::int64_t> elements(200);
      for (std::int64_t i = 0; i < 200; ++i) elements[static_cast<std::size_t>(i)] = first + i;
      table.philox_run(run.data(), first, 200, state);
      table.philox_at(at.data(), elements.data(), 200, state);
      for (std::size_t i = 0; i < 200; ++i) {
        ASSERT_EQ(run[i], philox_word(static_cast<std::uint64_t>(elements[i]), state)) << isa << " " << elements[i];
        ASSERT_EQ(at[i], run[i]) << isa << " " << elements[i];
      }
    }
  }
}

Case dropout(const Shape& x, const char* tag, float ratio, int threads = 1, std::int64_t axis = 0, std::int64_t outer = 1,
             std::int64_t inner = 1) {
  Attributes a{{"ratio", ratio}, {"layer", std::int64_t{77}}};
  if (axis >= 0) {
    a.set("axis", axis);
    a.set("outer", outer);
    a.set("inner", inner);
  }
  return {
      "DropoutTraining", std::move(a), {operand(DType::float32, x, tag), plain(DType::int64, {4})}, {operand(DType::float32, x)}, threads};
}
const Values random_state = {12345.0 + 4294967296.0 * 3, 9, 5, 0};  // seed, step, first sample of the slice

TEST(NativeDropout, KeepsByTheContractInEveryLayout) {
  const Shape shape{3, 20, 5, 7};
  const Values x = random_values(shape.elements(), 1, 0.5, 2);
  const vector::PhiloxState state{{12345, 3u ^ 77u}, {9, 0}};
  const auto threshold = static_cast<std::uint32_t>(0.3F * 4294967296.0);
  Values wanted;
  for (std::size_t i = 0; i < x.size(); ++i)
    wanted.push_back(philox_word(5 * 20 * 5 * 7 + i, state) < threshold
                         ? 0
                         : static_cast<double>(static_cast<float>(x[i]) * static_cast<float>(1 / (1 - static_cast<double>(0.3F)))));
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b"})
      for (const int threads : {1, 3})
        EXPECT_EQ(run_values(dropout(shape, tag, 0.3F, threads), {x, random_state})[0], wanted) << isa << " " << tag;
  }
}

// A part of an axis that holds no samples drops what the whole does there.
TEST(NativeDropout, PartsOfAnAxisDropWhatTheWholeDoes) {
  const Shape whole{6, 4, 10};
  const auto drawn = [](const Shape& shape, std::int64_t samples_axis, double first, std::vector<std::int64_t> part) {
    Case c = dropout(shape, "abc", 0.5F, 2, samples_axis);
    if (!part.empty()) c.attributes.set("part", std::move(part));
    return run_values(c, {Values(static_cast<std::size_t>(shape.elements()), 1.0), {1, 2, first, 0}})[0];
  };
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const std::int64_t samples : {-1, 0, 1, 2})
      for (const std::int64_t cut : {0, 1, 2})
        for (const std::int64_t runs : {1, 2}) {
          if (cut == samples) continue;
          const Values all = drawn(whole, samples, 3, {});
          const std::int64_t run = whole[static_cast<int>(cut)] / runs, size = run / 2, begin = run - size;
          Shape shape = whole;
          shape[static_cast<int>(cut)] = size * runs;
          Values wanted;
          for (std::int64_t i = 0; i < whole.elements(); ++i) {
            const std::int64_t at[] = {i / 40, i / 10 % 4, i % 10};
            if (at[cut] % run >= begin) wanted.push_back(all[static_cast<std::size_t>(i)]);
          }
          EXPECT_EQ(drawn(shape, samples, 3, {cut, begin, whole[static_cast<int>(cut)], runs}), wanted)
              << isa << " samples " << samples << " cut " << cut << " runs " << runs;
        }
  }
}

// Wherever the samples lie, a slice of them drops what the whole batch does, and each sample what it does elsewhere.
TEST(NativeDropout, SlicesOfABatchDropWhatTheWholeBatchDoes) {
  struct Row {
    const char* name;
    Shape before;  // dimensions around the samples
    std::int64_t outer, inner;
    Shape behind;
  };
  const Row rows[] = {{"first", {}, 1, 1, {130}},
                      {"flattened tokens", {}, 1, 7, {10}},
                      {"behind the sequence", {9}, 1, 1, {30}},
                      {"last", {11}, 1, 1, {}},
                      {"between heads and places", {3}, 4, 5, {6}}};
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const Row& row : rows) {
      const auto shape = [&](std::int64_t samples) {
        Shape s = row.before;
        s.dims.push_back(row.outer * samples * row.inner);
        s.dims.insert(s.dims.end(), row.behind.begin(), row.behind.end());
        return s;
      };
      const auto drawn = [&](std::int64_t samples, double first) {
        const char* const tags[] = {"", "a", "ab", "abc"};
        const Case c = dropout(shape(samples), tags[shape(samples).rank()], 0.5F, 2, row.before.rank(), row.outer, row.inner);
        return run_values(c, {Values(static_cast<std::size_t>(shape(samples).elements()), 1.0), {1, 2, first, 0}})[0];
      };
      const Values all = drawn(6, 0), part = drawn(2, 3);
      const std::int64_t outside = row.before.elements() * row.outer, inside = row.inner * row.behind.elements();
      Values wanted, sample;
      for (std::int64_t o = 0; o < outside; ++o)
        for (std::int64_t i = 0; i < 2 * inside; ++i) wanted.push_back(all[static_cast<std::size_t>((o * 6 + 3) * inside + i)]);
      EXPECT_EQ(part, wanted) << row.name << " " << isa;
      for (std::int64_t o = 0; o < outside; ++o)
        for (std::int64_t i = 0; i < inside; ++i) sample.push_back(all[static_cast<std::size_t>((o * 6 + 3) * inside + i)]);
      EXPECT_EQ(drawn(1, 3), sample) << row.name << " " << isa;
      const double kept = static_cast<double>(std::count(all.begin(), all.end(), 2.0)) / static_cast<double>(all.size());
      EXPECT_NEAR(kept, 0.5, 0.15) << row.name;
    }
    EXPECT_NE(run_values(dropout({6, 130}, "ab", 0.5F), {Values(780, 1.0), {1, 2, 0, 0}}),
              run_values(dropout({6, 130}, "ab", 0.5F), {Values(780, 1.0), {1, 3, 0, 0}}))
        << "steps";
    EXPECT_EQ(run_values(dropout({6, 130}, "ab", 0.5F, 1, -1), {Values(780, 1.0), {1, 2, 0, 0}}),
              run_values(dropout({6, 130}, "ab", 0.5F, 1, -1), {Values(780, 1.0), {1, 2, 4, 0}}))
        << "no samples";
  }
}

}  // namespace
}  // namespace tandem::native_tests
