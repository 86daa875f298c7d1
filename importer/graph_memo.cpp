#include "importer/graph_memo.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::size_t most_graphs = 8;
constexpr std::int64_t small_bytes = std::int64_t{1} << 20;

}  // namespace

Graph GraphMemo::get(const ImportOptions& options, const std::function<Graph()>& make) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(entries_, options, &Entry::options);
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return entries_.front().graph;
  }
  ++made_;
  Graph graph = make();
  const std::int64_t bytes = own_bytes(graph);
  if (bytes > most_bytes_) return graph;
  entries_.push_front({.options = options, .graph = graph, .bytes = bytes});
  std::int64_t sum = 0;
  std::size_t kept = 0;
  std::erase_if(entries_, [&](const Entry& e) { return (sum += e.bytes) > most_bytes_ || ++kept > most_graphs; });
  return graph;
}

void GraphMemo::release() {
  const std::lock_guard lock(mutex_);
  most_bytes_ = small_bytes;
  std::erase_if(entries_, [](const Entry& e) { return e.bytes > small_bytes; });
}

std::int64_t GraphMemo::own_bytes(const Graph& graph) const {
  std::int64_t sum = 0;
  for (const Value& v : graph.values)
    if (v.data && !held_.contains(v.data->identity())) sum += v.data->byte_size();
  return sum;
}

}  // namespace tandem
