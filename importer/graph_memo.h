// The graphs that a file was turned into lately, by their options: preparing a run asks for the same one many times. Copies of a graph
// share their tensors. Several threads may ask at once; a graph in the making is waited for.
#pragma once
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <set>

#include "graph/graph.h"
#include "importer/types.h"

namespace tandem {

class GraphMemo {
 public:
  // `held`: identities of tensors that are kept elsewhere anyway. What else a graph's values take is bounded.
  void hold(std::set<const void*> held) { held_ = std::move(held); }
  // The graph of these options, by `make` where it is not kept. An exception of `make` passes through.
  Graph get(const ImportOptions& options, const std::function<Graph()>& make);
  // Forgets the graphs with large values of their own, and keeps none from now on: a run is about to take the memory.
  void release();
  std::int64_t made() const { return made_; }

 private:
  struct Entry {
    ImportOptions options;
    Graph graph;
    std::int64_t bytes = 0;
  };
  std::int64_t own_bytes(const Graph& graph) const;

  std::set<const void*> held_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one asked for last is the first
  std::int64_t made_ = 0;
  std::int64_t most_bytes_ = std::int64_t{256} << 20;  // of all graphs together
};

}  // namespace tandem
