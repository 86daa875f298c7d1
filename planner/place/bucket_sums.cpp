// Sums over devices that may wait are gathered into buckets: one collective moves many small gradients, and starts as soon as
// the last of them is ready, while the backward pass goes on.
#include <algorithm>
#include <numeric>

#include "planner/plan/format.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

struct Sum {
  std::size_t node;
  int ready;         // the node behind which its operand is there; -1: at once
  int needed;        // the first node that reads it
  DType dtype;
  std::int64_t bytes;
  std::pair<int, std::size_t> over;  // a group of devices, and the axis of its mesh
  bool max;          // the largest is wanted, not the sum
  bool repeated;     // for each micro-batch
};

// Along which axis the addends lie.
std::pair<int, std::size_t> over(const Graph& graph, const Node& node) {
  const Placement &from = graph[node.inputs[0]].placement, &to = graph[node.outputs[0]].placement;
  const auto differ = std::mismatch(from.parts.begin(), from.parts.end(), to.parts.begin(), to.parts.end());
  return {to.group, static_cast<std::size_t>(differ.first - from.parts.begin())};
}

// The sums of the graph, in its order.
std::vector<Sum> sums_of(const Graph& graph) {
  const auto users = graph.consumers();
  // What follows from the sums of micro-batches is done once a step.
  IdVector<ValueId, bool> once(graph.values.size());
  const bool accumulates = std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op->accumulates; });
  for (const Node& n : graph.nodes)
    if (n.op->accumulates || std::ranges::any_of(n.inputs, [&](ValueId v) { return v.present() && once[v]; }))
      for (const ValueId out : n.outputs)
        if (out.present()) once[out] = true;
  std::vector<Sum> list;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->moves != Moves::sum) continue;
    const Value& whole = graph[node.outputs[0]];
    const std::vector<NodeId>& readers = users[node.outputs[0]];
    const int needed = readers.empty() ? static_cast<int>(graph.nodes.size()) : readers.front().index;
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(whole.type.dtype)) * whole.type.shape.elements();
    list.push_back(
        {n, graph[node.inputs[0]].producer.index, needed, whole.type.dtype, aligned(bytes), over(graph, node), node.attributes.has("max"),
         accumulates && !once[node.inputs[0]]});
  }
  return list;
}

using Groups = std::vector<std::vector<std::size_t>>;  // of sums, in the order in which they are complete

// A sum that is needed before all operands are there goes alone, as does one of a micro-batch; the others share buckets as large as asked.
Groups group(const std::vector<Sum>& sums, const CompileOptions& o) {
  int last = -1, last_max = -1;
  for (const Sum& s : sums) (s.max ? last_max : last) = std::max(s.max ? last_max : last, s.ready);
  last = std::max(last, last_max);
  std::vector<std::size_t> order(sums.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sums[a].ready < sums[b].ready; });
  Groups groups, buckets, largest;  // those of largest numbers wait for the last
  std::int64_t bytes = 0;
  for (const std::size_t s : order) {
    if (sums[s].repeated || sums[s].needed <= (sums[s].max ? last_max : last)) {
      groups.push_back({s});
      continue;
    }
    if (sums[s].max) {
      const auto same = std::find_if(largest.begin(), largest.end(),
                                     [&](const auto& g) { return sums[g[0]].over == sums[s].over && sums[g[0]].dtype == sums[s].dtype; });
      same != largest.end() ? same->push_back(s) : largest.push_back({s});
      continue;
    }
    const std::int64_t limit = std::max(buckets.size() == 1 ? o.memory.first_bucket_bytes : o.memory.bucket_bytes, plan_alignment);
    if (buckets.empty() || sums[buckets.back()[0]].dtype != sums[s].dtype || sums[buckets.back()[0]].over != sums[s].over ||
        bytes + sums[s].bytes > limit) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(s);
    bytes += sums[s].bytes;
  }
  groups.insert(groups.end(), buckets.begin(), buckets.end());
  groups.insert(groups.end(), largest.begin(), largest.end());
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return sums[a.back()].ready < sums[b.back()].ready; });
  return groups;
}

Node merged(const Graph& graph, const std::vector<Sum>& sums, const std::vector<std::size_t>& members) {
  Node node = graph.nodes[sums[members[0]].node];
  for (std::size_t i = 1; i < members.size(); ++i) {
    const Node& other = graph.nodes[sums[members[i]].node];
    node.inputs.push_back(other.inputs[0]);
    node.outputs.push_back(other.outputs[0]);
    add_origin(node.origin, other.origin);
  }
  return node;
}

Graph bucket_sums(Graph graph, const CompileOptions& options) {
  const std::vector<Sum> sums = sums_of(graph);
  const Groups groups = group(sums, options);
  // Each group stands in the place of its first member; arranged, it comes behind the last operand and the group before.
  std::vector<bool> gone(graph.nodes.size());
  std::vector<std::size_t> at;   // by group
  std::vector<int> ready;
  for (const auto& members : groups) {
    Node node = merged(graph, sums, members);
    ready.push_back(ready.empty() ? -1 : ready.back());
    for (const std::size_t s : members) {
      gone[sums[s].node] = true;
      ready.back() = std::max(ready.back(), sums[s].ready);
    }
    at.push_back(sums[members[0]].node);
    graph.nodes[at.back()] = std::move(node);
  }
  std::vector<std::size_t> order;
  std::size_t next = 0;
  // A sum whose operand is itself made of a sum follows that, wherever its node stood.
  const auto issue = [&](int behind) {
    for (; next < groups.size() && ready[next] <= behind; ++next) order.push_back(at[next]);
  };
  issue(-1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!gone[n]) order.push_back(n);
    issue(static_cast<int>(n));
  }
  arrange_nodes(graph, order);
  verify(graph);  // each sum is there before it is read
  return graph;
}

}  // namespace

// Gathers sums over the same devices.
Pass bucket_sums() {
  return {.name = "bucket_sums",
          .run = [](Graph g, PassContext& c) { return bucket_sums(std::move(g), c.options); },
          .needs = {Property::updated, Property::whole},
          .when = [](const PassContext& c) { return c.placed(); },
          .why = "few large sums cost less than many small ones"};
}

}  // namespace tandem::pass_rows
