#include "kernels/collective.h"

namespace tandem {

std::string_view name_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::all_reduce: return "all_reduce";
    case ExchangeKind::reduce_scatter: return "reduce_scatter";
    case ExchangeKind::all_gather: return "all_gather";
    case ExchangeKind::broadcast: return "broadcast";
    case ExchangeKind::send: return "send";
    case ExchangeKind::all_max: return "all_max";
    case ExchangeKind::reduce: return "reduce";
    case ExchangeKind::all_to_all: return "all_to_all";
  }
  return "unknown";
}

bool is_sum_over_all(const ExchangeSpec& spec, int ranks) {
  bool all = is_in_place(spec.kind) && std::ssize(spec.members) == ranks;
  for (int r = 0; all && r < ranks; ++r) all = spec.members[static_cast<std::size_t>(r)] == r;
  return all;
}

}  // namespace tandem
