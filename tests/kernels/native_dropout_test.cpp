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
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1],
         static_cast<std::uint32_t>(a)};
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

Case dropout(const Shape& x, const char* tag, float ratio, int threads = 1) {
  return {"DropoutTraining", {{"ratio", ratio}, {"layer", std::int64_t{77}}}, {operand(DType::float32, x, tag), plain(DType::int64, {4})}, {operand(DType::float32, x), operand(DType::uint8, {0})}, threads};
}
const Values random_state = {12345.0 + 4294967296.0 * 3, 9, 5, 0};  // seed, step, first row of the slice

TEST(NativeDropout, KeepsByTheContractInEveryLayout) {
  const Shape shape{3, 20, 5, 7};
  const Values x = random_values(shape.elements(), 1, 0.5, 2);
  const vector::PhiloxState state{{12345, 3u ^ 77u}, {9, 0}};
  const auto threshold = static_cast<std::uint32_t>(0.3F * 4294967296.0);
  Values wanted;
  for (std::size_t i = 0; i < x.size(); ++i)
    wanted.push_back(philox_word(5 * 20 * 5 * 7 + i, state) < threshold ? 0 : static_cast<double>(static_cast<float>(x[i]) * static_cast<float>(1 / (1 - static_cast<double>(0.3F)))));
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b"})
      for (const int threads : {1, 3}) EXPECT_EQ(run_values(dropout(shape, tag, 0.3F, threads), {x, random_state})[0], wanted) << isa << " " << tag;
  }
}

TEST(NativeDropout, SlicesOfABatchDropWhatTheWholeBatchDoes) {
  const Shape whole{6, 130}, part{2, 130};
  const Values x(780, 1.0);
  const Values all = run_values(dropout(whole, "ab", 0.5F), {x, {1, 2, 0, 0}})[0];
  const Values last = run_values(dropout(part, "ab", 0.5F), {Values(260, 1.0), {1, 2, 4, 0}})[0];
  EXPECT_EQ(Values(all.begin() + 520, all.end()), last);
  const double kept = static_cast<double>(std::count(all.begin(), all.end(), 2.0)) / 780;
  EXPECT_NEAR(kept, 0.5, 0.1);
  EXPECT_NE(all, run_values(dropout(whole, "ab", 0.5F), {x, {1, 3, 0, 0}})[0]);
}

TEST(NativeDropout, BackwardUsesTheMaskInItsOwnLayout) {
  const Shape shape{3, 20, 5, 7};
  for (const char* tag : {"abcd", "aBcd16b"}) {
    const KernelDescription forward = described(dropout(shape, tag, 0.5F));
    std::vector<Buffer> inputs = {Buffer(forward.inputs[0], Values(2100, 1.0)), Buffer(forward.inputs[1], random_state)};
    std::vector<Buffer> outputs = run(forward, inputs);
    const Case c{"DropoutBackward", {{"ratio", 0.5F}}, {operand(DType::float32, shape), forward.outputs[1]}, {operand(DType::float32, shape)}};
    const KernelDescription backward = described(c);
    EXPECT_EQ(to_string(backward.inputs[0].layout), tag);
    const Values dy = random_values(2100, 3);
    std::vector<Buffer> operands = {Buffer(backward.inputs[0], dy), outputs[1]};
    const Values dx = run(backward, operands)[0].values(), y = outputs[0].values();
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(dx[i], dy[i] * y[i]) << tag;
  }
}

}  // namespace
}  // namespace tandem::native_tests
