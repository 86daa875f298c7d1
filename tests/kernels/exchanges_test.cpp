// Every kind of exchange among ranks that are threads of this process.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/collective.h"
#include "tests/kernels/exchange_rows.h"

namespace tandem {
namespace {

using namespace test;

class Exchanges : public testing::TestWithParam<ExchangeRow> {};

constexpr int rounds = 20;

// Members run it in threads of their own, again and again; the other ranks have no part in it.
TEST_P(Exchanges, GivesEachMemberItsValues) {
  expect_values(*in_process_group(exchange_ranks, 30), GetParam(), rounds, [](Kernel& kernel) { kernel.run({}); });
}

INSTANTIATE_TEST_SUITE_P(Rows, Exchanges, testing::ValuesIn(exchange_rows()), [](const auto& info) { return info.param.name; });

// Parts may lie where they belong in the whole.
TEST(Exchanges, WorkInPlace) {
  const auto group = in_process_group(2, 30);
  std::vector<Values> whole{{1, 0, 0}, {0, 2, 3}}, sums{{1, 2, 3}, {10, 20, 30}};
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto self = static_cast<std::size_t>(r);
      std::byte* const gathered = reinterpret_cast<std::byte*>(whole[self].data());
      std::byte* const own = gathered + 4 * r;
      const auto gather = group->make({ExchangeKind::all_gather, {0, 1}, 3, DType::float32, {1, 2}, 0}, r);
      gather->bind({&own, 1}, {&gathered, 1}, nullptr);
      gather->run({});
      std::byte* const summed = reinterpret_cast<std::byte*>(sums[self].data());
      std::byte* const part = summed + 4 * r;
      const auto scatter = group->make({ExchangeKind::reduce_scatter, {0, 1}, 3, DType::float32, {1, 2}, 1}, r);
      scatter->bind({&summed, 1}, {&part, 1}, nullptr);
      scatter->run({});
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(whole, (std::vector<Values>{{1, 2, 3}, {1, 2, 3}}));
  EXPECT_EQ(sums, (std::vector<Values>{{11, 2, 3}, {10, 22, 33}}));
}

TEST(Exchanges, NameTheMemberThatDoesNotCome) {
  const auto group = in_process_group(4, 0.05);
  float value = 1;
  std::byte* const memory = reinterpret_cast<std::byte*>(&value);
  const auto kernel = group->make({ExchangeKind::send, {3, 1}, 1}, 1);
  kernel->bind({}, {&memory, 1}, nullptr);
  try {
    kernel->run({});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    EXPECT_STREQ(e.what(), "send: waited 0.05 s for rank 3");
  }
}

TEST(Exchanges, AbortWakesAllChannels) {
  const auto group = in_process_group(3, 0);
  const auto failure = [&](int channel, int rank) {
    float value = 1;
    std::byte* const memory = reinterpret_cast<std::byte*>(&value);
    const auto kernel = group->make({ExchangeKind::all_reduce, {rank, 2}, 1, DType::float32, {}, channel}, rank);
    kernel->bind({}, {&memory, 1}, nullptr);
    try {
      kernel->run({});
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  std::string first, second;
  std::thread one([&] { first = failure(0, 0); }), other([&] { second = failure(1, 1); });
  group->abort("rank 2 is on fire");
  one.join();
  other.join();
  EXPECT_EQ(first, "rank 2 is on fire");
  EXPECT_EQ(second, "rank 2 is on fire");
}

TEST(Exchanges, AreAmongMembersAlone) {
  const auto group = in_process_group(3, 30);
  EXPECT_THROW(group->make({ExchangeKind::send, {0, 1}, 1}, 2), Error);
  EXPECT_THROW(group->make({ExchangeKind::send, {0, 3}, 1}, 3), Error);
}

TEST(Exchanges, RefusePartsThatCannotBe) {
  const auto group = in_process_group(2, 30);
  const auto reason = [&](ExchangeSpec spec) {
    spec.members = {0, 1};
    try {
      group->make(spec, 0);
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(reason({.kind = ExchangeKind::all_gather, .elements = 3, .parts = {1, 1}}),
            "all_gather among 2 ranks: members give 2 of 3 elements in 2 parts");
  EXPECT_EQ(reason({.kind = ExchangeKind::all_to_all, .elements = 4, .parts = {2, 2}, .gets = {4}}),
            "all_to_all among 2 ranks: members get 4 of 4 elements in 1 parts");
  EXPECT_EQ(reason({.kind = ExchangeKind::all_to_all, .elements = 4, .parts = {2, 2}, .gets = {1, 3}}),
            "all_to_all among 2 ranks: who gives 2 has no piece for who gets 1 of 4 elements");
  EXPECT_EQ(reason({.kind = ExchangeKind::reduce, .elements = 4, .dtype = DType::int64}),
            "reduce among 2 ranks: expected a floating-point type, got int64");
}

}  // namespace
}  // namespace tandem
