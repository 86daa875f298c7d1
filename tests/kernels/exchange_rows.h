// Every kind of exchange, with what its members give and get: for each group that offers exchanges.
#pragma once
#include <functional>
#include <ostream>
#include <span>
#include <vector>

#include "kernels/collective.h"

namespace tandem::test {

using Values = std::vector<float>;

struct ExchangeRow {
  const char* name;
  ExchangeSpec spec;
  // What each member gives and gets, in the members' order; empty: it has no such buffer.
  std::vector<Values> gives, gets;
};
void PrintTo(const ExchangeRow& row, std::ostream* out);

inline constexpr int exchange_ranks = 5;
const std::vector<ExchangeRow>& exchange_rows();
// The buffer as bind() takes it.
std::vector<std::byte*> operand(Values& values);
// Members in threads of their own take part `runs` times, each time by `run`, and each gets its values.
void expect_values(CollectiveGroup& group, const ExchangeRow& row, int runs, const std::function<void(Kernel&)>& run);

}  // namespace tandem::test
