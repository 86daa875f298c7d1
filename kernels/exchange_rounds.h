// What every kind of exchange is made of: rounds, in which each member gives a range of its values to each.
#pragma once
#include <span>

#include "kernels/collective.h"

namespace tandem {

// Elements [from, from + elements) of what the giver has go to [to, to + elements) of what the getter has.
struct Leg {
  std::int64_t from = 0, to = 0, elements = 0;
};
struct Round {
  bool folds;  // the getter has the sum, or the largest, of what all give it; else it has each by itself
  Leg (*leg)(const ExchangeSpec& spec, std::size_t giver, std::size_t getter);
};
std::span<const Round> rounds_of(ExchangeKind kind);
// Whether anything moves between two members.
bool meet(const ExchangeSpec& spec, std::size_t a, std::size_t b);

// Elements of what a member gives, and of what it gets, from the first that moves to the last.
std::int64_t elements_given(const ExchangeSpec& spec, std::size_t member);
std::int64_t elements_got(const ExchangeSpec& spec, std::size_t member);

// What cannot be of its numbers of elements and its type; empty: it can be.
std::string fault_of(const ExchangeSpec& spec);
// Fails (communication) with it, and where host memory of such a type is not summed.
void check(const ExchangeSpec& spec);

}  // namespace tandem
