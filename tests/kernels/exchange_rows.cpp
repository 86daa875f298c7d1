#include "tests/kernels/exchange_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>

namespace tandem::test {
namespace {

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

}  // namespace

void PrintTo(const ExchangeRow& row, std::ostream* out) { *out << row.name; }

std::vector<std::byte*> operand(Values& values) {
  if (values.empty()) return {};
  return {reinterpret_cast<std::byte*>(values.data())};
}

void expect_values(CollectiveGroup& group, const ExchangeRow& row, int runs, const std::function<void(Kernel&)>& run) {
  std::vector<Values> gives = row.gives, gets(row.gets.size());
  std::vector<std::jthread> threads;
  for (std::size_t m = 0; m < row.spec.members.size(); ++m)
    threads.emplace_back([&, m] {
      const auto kernel = group.make(row.spec, row.spec.members[m]);
      gets[m].resize(row.gets[m].size());
      kernel->bind(operand(gives[m]), operand(gets[m]), nullptr);
      for (int r = 0; r < runs; ++r) {
        std::ranges::fill(gets[m], -1.0F);
        if (is_in_place(row.spec.kind)) std::ranges::copy(row.gives[m], gets[m].begin());
        run(*kernel);
        EXPECT_EQ(gets[m], row.gets[m]) << "member " << m << ", run " << r;
        for (float& v : gives[m]) v = -2;  // what is given may be overwritten behind the exchange
        std::ranges::copy(row.gives[m], gives[m].begin());
      }
    });
}

const std::vector<ExchangeRow>& exchange_rows() {
  static const std::vector<ExchangeRow> rows{
      {"sum_of_some", {ExchangeKind::all_reduce, {4, 1}, 3000}, {a, b}, {sum_of(a, b), sum_of(a, b)}},
      {"largest_of_some", {ExchangeKind::all_max, {4, 1, 0}, 3000}, {a, b, many(3000, -2990)}, std::vector<Values>(3, b)},
      {"largest_of_each_element", {ExchangeKind::all_max, {0, 1}, 3}, {{1, 5, 0}, {4, 2, std::numeric_limits<float>::infinity()}}, std::vector<Values>(2, {4, 5, std::numeric_limits<float>::infinity()})},
      {"scatter_in_uneven_parts", {ExchangeKind::reduce_scatter, {0, 3}, 3000, DType::float32, {2990, 10}}, {a, b}, {range(sum_of(a, b), 0, 2990), range(sum_of(a, b), 2990, 3000)}},
      {"scatter_in_another_order", {ExchangeKind::reduce_scatter, {3, 0, 4}, 5, DType::float32, {1, 0, 4}}, {{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}, {100, 200, 300, 400, 500}}, {{111}, {}, {222, 333, 444, 555}}},
      {"gather_in_uneven_parts", {ExchangeKind::all_gather, {0, 3, 1}, 6, DType::float32, {1, 3, 2}}, {{1}, {2, 3, 4}, {5, 6}}, {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}},
      {"gather_of_all", {ExchangeKind::all_gather, {0, 1, 2, 3, 4}, 5, DType::float32, {1, 1, 1, 1, 1}}, {{1}, {2}, {3}, {4}, {5}}, std::vector<Values>(5, {1, 2, 3, 4, 5})},
      {"broadcast", {ExchangeKind::broadcast, {2, 0, 4}, 2}, {{8, 9}, {}, {}}, {{}, {8, 9}, {8, 9}}},
      {"broadcast_that_the_giver_keeps", {ExchangeKind::broadcast, {2, 0}, 2}, {{8, 9}, {}}, {{8, 9}, {8, 9}}},
      {"reduce", {ExchangeKind::reduce, {3, 1, 0}, 3}, {{1, 2, 3}, {10, 20, 30}, {100, 200, 300}}, {{111, 222, 333}, {}, {}}},
      {"all_to_all", {.kind = ExchangeKind::all_to_all, .members = {4, 1}, .elements = 12, .parts = {8, 4}, .gets = {3, 9}}, {{1, 2, 3, 4, 5, 6, 7, 8}, {11, 12, 13, 14}}, {{1, 2, 11}, {3, 4, 5, 6, 7, 8, 12, 13, 14}}},
      {"all_to_all_with_nothing", {.kind = ExchangeKind::all_to_all, .members = {0, 1, 2}, .elements = 4, .parts = {4, 0, 0}, .gets = {0, 2, 2}}, {{1, 2, 3, 4}, {}, {}}, {{}, {1, 2}, {3, 4}}},
      {"send", {ExchangeKind::send, {3, 1}, 3000}, {a, {}}, {{}, a}},
      {"send_of_bytes", {ExchangeKind::send, {1, 3}, 4, DType::uint8}, {{2.5F}, {}}, {{}, {2.5F}}}};
  return rows;
}

}  // namespace tandem::test
