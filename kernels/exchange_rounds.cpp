#include "kernels/exchange_rounds.h"

#include <algorithm>
#include <numeric>

namespace tandem {
namespace {

constexpr std::int64_t line = 64;  // elements: no two members write the same cache line

std::int64_t before(const std::vector<std::int64_t>& parts, std::size_t member) {
  return std::accumulate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(member), std::int64_t{0});
}

// Each member's share of the elements that all sum.
Leg share_of(const ExchangeSpec& s, std::size_t member) {
  const auto count = std::ssize(s.members), at = static_cast<std::int64_t>(member);
  const std::int64_t share = ((s.elements + count - 1) / count + line - 1) / line * line;
  const std::int64_t begin = std::min(s.elements, share * at);
  return {begin, begin, std::min(s.elements, share * (at + 1)) - begin};
}

std::int64_t piece(const ExchangeSpec& s, std::size_t giver, std::size_t getter) {
  if (s.elements == 0) return 0;
  const std::int64_t common = std::gcd(s.parts[giver], s.elements);
  return s.parts[giver] / common * (s.gets[getter] / (s.elements / common));
}

bool folds(const ExchangeSpec& s) { return std::ranges::any_of(rounds_of(s.kind), &Round::folds); }

constexpr auto sum_shares = [](const ExchangeSpec& s, std::size_t, std::size_t getter) { return share_of(s, getter); };
constexpr auto spread_shares = [](const ExchangeSpec& s, std::size_t giver, std::size_t) { return share_of(s, giver); };
constexpr auto sum_parts = [](const ExchangeSpec& s, std::size_t, std::size_t getter) {
  return Leg{before(s.parts, getter), 0, s.parts[getter]};
};
constexpr auto gather_parts = [](const ExchangeSpec& s, std::size_t giver, std::size_t) {
  return Leg{0, before(s.parts, giver), s.parts[giver]};
};
constexpr auto from_first = [](const ExchangeSpec& s, std::size_t giver, std::size_t) { return Leg{0, 0, giver == 0 ? s.elements : 0}; };
constexpr auto to_first = [](const ExchangeSpec& s, std::size_t, std::size_t getter) { return Leg{0, 0, getter == 0 ? s.elements : 0}; };
constexpr auto swap_pieces = [](const ExchangeSpec& s, std::size_t giver, std::size_t getter) {
  Leg leg{0, 0, piece(s, giver, getter)};
  for (std::size_t m = 0; m < getter; ++m) leg.from += piece(s, giver, m);
  for (std::size_t m = 0; m < giver; ++m) leg.to += piece(s, m, getter);
  return leg;
};

constexpr Round in_place[] = {{true, sum_shares}, {false, spread_shares}}, scatter[] = {{true, sum_parts}},
                gather[] = {{false, gather_parts}}, spread[] = {{false, from_first}}, collect[] = {{true, to_first}},
                swap_all[] = {{false, swap_pieces}};

}  // namespace

std::span<const Round> rounds_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::all_reduce:
    case ExchangeKind::all_max: return in_place;
    case ExchangeKind::reduce_scatter: return scatter;
    case ExchangeKind::all_gather: return gather;
    case ExchangeKind::broadcast:
    case ExchangeKind::send: return spread;
    case ExchangeKind::reduce: return collect;
    case ExchangeKind::all_to_all: return swap_all;
  }
  fail("unknown exchange");
}

std::int64_t elements_given(const ExchangeSpec& s, std::size_t member) {
  std::int64_t end = 0;
  for (const Round& round : rounds_of(s.kind))
    for (std::size_t m = 0; m < s.members.size(); ++m)
      if (const Leg leg = round.leg(s, member, m); leg.elements > 0) end = std::max(end, leg.from + leg.elements);
  return end;
}

std::int64_t elements_got(const ExchangeSpec& s, std::size_t member) {
  std::int64_t end = 0;
  for (const Round& round : rounds_of(s.kind))
    for (std::size_t m = 0; m < s.members.size(); ++m)
      if (const Leg leg = round.leg(s, m, member); leg.elements > 0) end = std::max(end, leg.to + leg.elements);
  return end;
}

bool meet(const ExchangeSpec& spec, std::size_t a, std::size_t b) {
  const std::span<const Round> rounds = rounds_of(spec.kind);
  return std::any_of(rounds.begin(), rounds.end(),
                     [&](const Round& r) { return r.leg(spec, a, b).elements > 0 || r.leg(spec, b, a).elements > 0; });
}

std::string fault_of(const ExchangeSpec& s) {
  if (folds(s) && !is_float(s.dtype)) return concat("expected a floating-point type, got ", s.dtype);
  const auto adds_up = [&](const std::vector<std::int64_t>& parts) {
    return parts.size() == s.members.size() && std::all_of(parts.begin(), parts.end(), [](std::int64_t n) { return n >= 0; }) &&
           before(parts, parts.size()) == s.elements;
  };
  const auto wrong = [&](const std::vector<std::int64_t>& parts, std::string_view what) {
    return concat("members ", what, ' ', before(parts, parts.size()), " of ", s.elements, " elements in ", parts.size(), " parts");
  };
  if (s.kind == ExchangeKind::reduce_scatter && !adds_up(s.parts)) return wrong(s.parts, "get");
  const bool swaps = s.kind == ExchangeKind::all_to_all;
  if ((swaps || s.kind == ExchangeKind::all_gather) && !adds_up(s.parts)) return wrong(s.parts, "give");
  if (!swaps) return "";
  if (!adds_up(s.gets)) return wrong(s.gets, "get");
  for (const std::int64_t given : s.parts)
    for (const std::int64_t got : s.gets)
      if (given > 0 && got % (s.elements / std::gcd(given, s.elements)) != 0)
        return concat("who gives ", given, " has no piece for who gets ", got, " of ", s.elements, " elements");
  return "";
}

void check(const ExchangeSpec& s) {
  std::string fault = fault_of(s);
  if (fault.empty() && folds(s) && s.dtype != DType::float32 && s.dtype != DType::float64)
    fault = concat("expected float32 or float64, got ", s.dtype);
  if (!fault.empty()) fail(ExitCode::communication, name_of(s.kind), " among ", s.members.size(), " ranks: ", fault);
}

}  // namespace tandem
