// Every kind of exchange among ranks that are threads of this process.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <thread>

#include "kernels/collective.h"

namespace tandem {
namespace {

using Values = std::vector<float>;

struct Row {
  const char* name;
  ExchangeSpec spec;
  // What each member gives and gets, in the members' order; empty: it has no such buffer.
  std::vector<Values> gives, gets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Exchanges : public testing::TestWithParam<Row> {};

std::vector<std::byte*> operand(Values& values) {
  if (values.empty()) return {};
  return {reinterpret_cast<std::byte*>(values.data())};
}

constexpr int ranks = 5, rounds = 20;

// Members run it in threads of their own, again and again; the other ranks have no part in it.
TEST_P(Exchanges, GivesEachMemberItsValues) {
  const Row& row = GetParam();
  const auto group = in_process_group(ranks, 30);
  std::vector<Values> gives = row.gives, gets(row.gets.size());
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (std::size_t m = 0; m < row.spec.members.size(); ++m) {
    gets[m].assign(row.gets[m].size(), -1);
    kernels.push_back(group->make(row.spec, row.spec.members[m]));
    kernels.back()->bind(operand(gives[m]), operand(gets[m]), nullptr);
  }
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < kernels.size(); ++m)
    threads.emplace_back([&, m] {
      for (int round = 0; round < rounds; ++round) {
        std::fill(gets[m].begin(), gets[m].end(), -1.0F);
        if (is_in_place(row.spec.kind)) gets[m] = row.gives[m];  // in place
        kernels[m]->run({});
        EXPECT_EQ(gets[m], row.gets[m]) << "member " << m << ", round " << round;
        for (float& v : gives[m]) v = -2;  // what is given may be overwritten behind the exchange
        gives[m] = row.gives[m];
      }
    });
  for (std::thread& t : threads) t.join();
}

Values many(std::int64_t n, float first) {
  Values v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), first);
  return v;
}
Values sum_of(const Values& a, const Values& b) {
  Values s = a;
  for (std::size_t i = 0; i < s.size(); ++i) s[i] += b[i];
  return s;
}
Values range(const Values& v, std::int64_t begin, std::int64_t end) { return {v.begin() + begin, v.begin() + end}; }
const Values a = many(3000, 0), b = many(3000, 7);

INSTANTIATE_TEST_SUITE_P(
    Rows, Exchanges,
    testing::Values(
        Row{"sum_of_some", {ExchangeKind::all_reduce, {4, 1}, 3000}, {a, b}, {sum_of(a, b), sum_of(a, b)}},
        Row{"largest_of_some", {ExchangeKind::all_max, {4, 1, 0}, 3000}, {a, b, many(3000, -2990)}, std::vector<Values>(3, b)},
        Row{"largest_of_each_element", {ExchangeKind::all_max, {0, 1}, 3}, {{1, 5, 0}, {4, 2, std::numeric_limits<float>::infinity()}}, std::vector<Values>(2, {4, 5, std::numeric_limits<float>::infinity()})},
        Row{"scatter_in_uneven_parts", {ExchangeKind::reduce_scatter, {0, 3}, 3000, DType::float32, {2990, 10}}, {a, b}, {range(sum_of(a, b), 0, 2990), range(sum_of(a, b), 2990, 3000)}},
        Row{"scatter_in_another_order", {ExchangeKind::reduce_scatter, {3, 0, 4}, 5, DType::float32, {1, 0, 4}}, {{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}, {100, 200, 300, 400, 500}}, {{111}, {}, {222, 333, 444, 555}}},
        Row{"gather_in_uneven_parts", {ExchangeKind::all_gather, {0, 3, 1}, 6, DType::float32, {1, 3, 2}}, {{1}, {2, 3, 4}, {5, 6}}, {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}},
        Row{"gather_of_all", {ExchangeKind::all_gather, {0, 1, 2, 3, 4}, 5, DType::float32, {1, 1, 1, 1, 1}}, {{1}, {2}, {3}, {4}, {5}}, std::vector<Values>(5, {1, 2, 3, 4, 5})},
        Row{"broadcast", {ExchangeKind::broadcast, {2, 0, 4}, 2}, {{8, 9}, {}, {}}, {{}, {8, 9}, {8, 9}}},
        Row{"broadcast_that_the_giver_keeps", {ExchangeKind::broadcast, {2, 0}, 2}, {{8, 9}, {}}, {{8, 9}, {8, 9}}},
        Row{"reduce", {ExchangeKind::reduce, {3, 1, 0}, 3}, {{1, 2, 3}, {10, 20, 30}, {100, 200, 300}}, {{111, 222, 333}, {}, {}}},
        Row{"all_to_all", {.kind = ExchangeKind::all_to_all, .members = {4, 1}, .elements = 12, .parts = {8, 4}, .gets = {3, 9}}, {{1, 2, 3, 4, 5, 6, 7, 8}, {11, 12, 13, 14}}, {{1, 2, 11}, {3, 4, 5, 6, 7, 8, 12, 13, 14}}},
        Row{"all_to_all_with_nothing", {.kind = ExchangeKind::all_to_all, .members = {0, 1, 2}, .elements = 4, .parts = {4, 0, 0}, .gets = {0, 2, 2}}, {{1, 2, 3, 4}, {}, {}}, {{}, {1, 2}, {3, 4}}},
        Row{"send", {ExchangeKind::send, {3, 1}, 3000}, {a, {}}, {{}, a}},
        Row{"send_of_bytes", {ExchangeKind::send, {1, 3}, 4, DType::uint8}, {{2.5F}, {}}, {{}, {2.5F}}}),
    [](const auto& info) { return info.param.name; });

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
            "reduce among 2 ranks: expected float32 or float64, got int64");
}

// Groups that offer sums over all of their ranks alone say so when a kernel is made.
TEST(Exchanges, OthersThanSumsOverAllAreRefused) {
  const auto reason = [](const ExchangeSpec& spec) {
    try {
      check_sums_over_all(spec, 3, "a group of GPUs");
      return std::pair(ExitCode::ok, std::string());
    } catch (const Error& e) {
      return std::pair(e.code(), std::string(e.what()));
    }
  };
  EXPECT_EQ(reason({ExchangeKind::all_reduce, {0, 1, 2}, 8}).second, "");
  EXPECT_EQ(reason({ExchangeKind::all_reduce, {0, 2}, 8}),
            std::pair(ExitCode::device,
                      std::string("all_reduce among 2 of 3 devices: a group of GPUs offers all_reduce over all devices alone")));
  EXPECT_EQ(reason({ExchangeKind::all_max, {0, 1, 2}, 8}).second, "");
  EXPECT_EQ(reason({ExchangeKind::all_gather, {0, 1, 2}, 8, DType::float32, {2, 3, 3}}).first, ExitCode::device);
  EXPECT_EQ(reason({ExchangeKind::send, {0, 1}, 8}).first, ExitCode::device);
  EXPECT_EQ(reason({ExchangeKind::all_reduce, {0, 1, 2}, 8, DType::int64}).first, ExitCode::communication);
}

}  // namespace
}  // namespace tandem
