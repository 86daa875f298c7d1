// Which batch a model's samples are followed at, and the graph for the wanted one that is made after it.
#include <algorithm>

#include "graph/operator.h"
#include "importer/bind_inputs.h"
#include "importer/build_graph.h"

namespace tandem {
namespace {

// A symbolic batch is followed at a number that no other dimension is likely to have. What fails there was folded by the
// exporter at the batch of its example: mostly 1.
constexpr std::int64_t symbolic_batch = 11;
constexpr std::int64_t example_batches[] = {1, 2, 3, 4, 5, 8, 16, 32};

const FlatNode* find_node(const FlatBody& body, int id) {
  for (const FlatNode& node : body.nodes) {
    if (node.id == id) return &node;
    for (const FlatBody& inner : node.bodies)
      if (const FlatNode* found = find_node(inner, id)) return found;
  }
  return nullptr;
}

Problem problem_of(const FlatModel& model, const FollowedGraph& own) {
  const std::string shapes = batch_is_symbolic(model.inputs) ? concat("; shapes are for ", own.samples, " samples") : "";
  const std::string reason = concat(own.followed.reason, shapes, "; option cut ends the model at a value before it, where what lies behind is not wanted");
  for (const auto& [id, made] : own.built.nodes)
    if (made == own.followed.node && id.second.empty())
      if (const FlatNode* node = find_node(model.main, id.first)) return {node->name, qualified_op(*node), node->opset, reason};
  const Node& node = own.built.graph[own.followed.node];  // one that lifting an old opset or unrolling a loop put in
  return {.reason = concat(node.op->name, " '", node.name, "': ", reason)};
}

FollowedGraph follow(const FlatModel& model, const ImportOptions& options, std::int64_t samples, bool shapes_only) {
  FollowedGraph own{.built = build_graph(model, options, samples, nullptr, shapes_only), .samples = samples};
  if (own.built.problems.empty()) own.followed = follow_batch(own.built.graph, samples);
  return own;
}

bool whole(const FollowedGraph& own) {
  return own.built.problems.empty() && own.followed.reason.empty();
}

// Whether the two builds share a problem: then it has nothing to do with the batch.
bool same_problem(const std::vector<Problem>& a, const std::vector<Problem>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Problem& p) {
    return std::any_of(b.begin(), b.end(), [&](const Problem& q) { return p.node == q.node && p.op == q.op && p.reason == q.reason; });
  });
}

// A graph at the batch for which the file's own sizes stand.
FollowedGraph follow_symbolic(const FlatModel& model, const ImportOptions& options) {
  FollowedGraph symbolic = follow(model, options, symbolic_batch, true);
  if (symbolic.built.problems.empty()) return symbolic;
  for (const std::int64_t samples : example_batches) {
    FollowedGraph own = follow(model, options, samples, true);
    if (whole(own)) return own;
    if (same_problem(own.built.problems, symbolic.built.problems)) break;
  }
  return symbolic;
}

void mark_samples(FollowedGraph& own) {
  for (std::size_t i = 0; i < own.built.graph.values.size(); ++i) {
    Value& value = own.built.graph.values[i];
    value.batch = own.followed.places[i];
    value.depends_on_batch = value.batch.present();
  }
}

}  // namespace

BuiltGraph build_followed(const FlatModel& model, const ImportOptions& options) {
  const bool symbolic = batch_is_symbolic(model.inputs);
  const std::int64_t file_batch = batch_of_file(model.inputs), batch = options.batch > 0 ? options.batch : file_batch;
  const bool as_in_file = !symbolic && batch == file_batch;
  FollowedGraph own = symbolic ? follow_symbolic(model, options) : follow(model, options, file_batch, !as_in_file);
  if (!own.built.problems.empty()) {
    if (!symbolic) return std::move(own.built);
    // Told of the batch that was asked for.
    BuiltGraph wanted = build_graph(model, options, batch, nullptr);
    if (wanted.problems.empty()) wanted.problems = std::move(own.built.problems);
    return wanted;
  }
  // Samples may meet where the graph is taken as it stands.
  if (as_in_file && (!own.followed.reason.empty() || own.followed.copies.empty())) {
    if (own.followed.reason.empty()) mark_samples(own);
    return std::move(own.built);
  }
  if (!own.followed.reason.empty()) {
    own.built.problems.push_back(problem_of(model, own));
    return std::move(own.built);
  }
  return build_graph(model, options, batch, &own);
}

}  // namespace tandem
