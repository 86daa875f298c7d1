// Which batch a model's samples are followed at, and the graph for the wanted one that is made after it.
#include <algorithm>

#include "base/option.h"
#include "graph/operator.h"
#include "importer/build/build_graph.h"
#include "importer/build/sizes_by_weights.h"

namespace tandem {
namespace {

// A symbolic batch is followed at a number that no other dimension is likely to have. What fails there was folded by the
// exporter at the batch of its example: mostly 1.
constexpr std::int64_t symbolic_batch = 11;
constexpr std::int64_t example_batches[] = {1, 2, 3, 4, 5, 8, 16, 32};
constexpr std::int64_t most_work = 500'000;  // nodes built to see which reading can be followed

const FlatNode* find_node(const FlatBody& body, int id) {
  for (const FlatNode& node : body.nodes) {
    if (node.id == id) return &node;
    for (const FlatBody& inner : node.bodies)
      if (const FlatNode* found = find_node(inner, id)) return found;
  }
  return nullptr;
}

Problem problem_of(const FlatModel& model, const FollowedGraph& own, const std::string& otherwise, bool one_sample) {
  std::string reason = concat(own.followed.reason, otherwise);
  if (own.reading.symbolic) reason += concat("; shapes are for ", own.samples, " samples");
  if (one_sample)
    reason += concat("; a file for one sample, whose inputs have no axis for more, takes ", option("batch"), " 1, or as many ",
                     option("micro_batches"), " as the batch has samples");
  reason += concat("; ", option("cut"), " ends the model at a value before it, where what lies behind is not wanted");
  for (const auto& [id, made] : own.built.nodes)
    if (made == own.followed.node && id.second.empty())
      if (const FlatNode* node = find_node(model.main, id.first)) return {node->name, qualified_op(*node), node->opset, reason};
  const Node& node = own.built.graph[own.followed.node];  // one that lifting an old opset or unrolling a loop put in
  return {.reason = concat(node.op->name, " '", node.name, "': ", reason)};
}

FollowedGraph follow(const FlatModel& model, const ImportOptions& options, const BatchReading& reading, std::int64_t samples,
                     bool shapes_only) {
  FollowedGraph own{
      .built = build_graph(model, options, reading, samples, nullptr, shapes_only), .followed = {}, .samples = samples, .reading = reading};
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
FollowedGraph follow_symbolic(const FlatModel& model, const ImportOptions& options, const BatchReading& reading) {
  FollowedGraph symbolic = follow(model, options, reading, symbolic_batch, true);
  if (symbolic.built.problems.empty()) return symbolic;
  for (const std::int64_t samples : example_batches) {
    FollowedGraph own = follow(model, options, reading, samples, true);
    if (whole(own)) return own;
    if (same_problem(own.built.problems, symbolic.built.problems)) break;
  }
  return symbolic;
}

FollowedGraph follow(const FlatModel& model, const ImportOptions& options, const BatchReading& reading, std::int64_t batch) {
  return reading.symbolic ? follow_symbolic(model, options, reading)
                          : follow(model, options, reading, reading.samples, batch != reading.samples);
}

// What was chosen though the file could be read otherwise.
void say_axes(const FlatModel& model, const ImportOptions& options, BatchReading& reading) {
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const ModelInput& input = model.inputs[i];
    if (reading.axes[i] <= 0 || options.batch_axes.contains(input.name) || options.constants.contains(input.name)) continue;
    const std::string& symbol = input.dims[static_cast<std::size_t>(reading.axes[i])].symbol;
    reading.assumed[i] =
        concat("input '", input.name, "': the samples are taken to lie along its axis ", reading.axes[i],
               is_anonymous(symbol) ? "" : concat(", '", symbol, "'"), "; ", option("batch_axis"), " ", input.name, "=0 says otherwise");
  }
}

// Of sizes alone the samples are taken to lie behind what comes first in each (steps, layers), never elsewhere without a word of the user.
bool is_usual(const FlatModel& model, const BatchReading& reading) {
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    if (reading.axes[i] > 0 && (reading.axes[i] > 1 || model.inputs[i].dims.size() < 3)) return false;
  return true;
}

// How the user says that the file is to be read so.
std::string option_of(const FlatModel& model, const BatchReading& reading) {
  std::string text;
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    if (reading.axes[i] > 0)
      text += concat(text.empty() ? concat("; with ", option("batch_axis"), " ") : ",", model.inputs[i].name, '=', reading.axes[i]);
  return text + " its samples can be followed";
}

// The likeliest reading whose samples can be followed, with the sizes that weights tell; else the likeliest of all.
struct Chosen {
  ImportOptions options;
  FollowedGraph own;
  std::string otherwise = {};  // how it could be followed, where it cannot
};
Chosen choose(const FlatModel& model, const ImportOptions& asked, std::int64_t batch) {
  std::vector<BatchReading> readings = batch_readings(model.inputs, asked);
  if (batch == 0 && !readings[0].symbolic) readings.resize(1);  // as the file has it: nothing is to be found
  std::optional<Chosen> first;
  std::int64_t work = most_work;
  for (std::size_t r = 0; r < readings.size() && (r == 0 || work > 0); ++r) {
    if (r > 0) say_axes(model, asked, readings[r]);
    Chosen now{.options = with_sizes_by_weights(model, asked, readings[r], work), .own = {}};
    const ImportOptions some = with_some_sizes(model, now.options, readings[r]);
    const std::int64_t wanted = batch > 0 ? batch : readings[r].samples;
    now.own = follow(model, some, readings[r], wanted);
    work -= std::ssize(model.main.nodes) + std::ssize(now.own.built.graph.nodes);
    const bool followed = whole(now.own);
    const bool unrelated = !readings[r].symbolic && !now.own.built.problems.empty();
    if (r > 0 && followed && !readings[r].symbolic && asked.batch_axes.empty() && !is_usual(model, readings[r])) {
      if (first->otherwise.empty()) first->otherwise = option_of(model, readings[r]);
      continue;
    }
    if (some.dims != now.options.dims) now.own = follow(model, now.options, readings[r], wanted);  // says what has no size
    if (followed || (r == 0 && unrelated)) return now;
    if (!first) first = std::move(now);
  }
  return std::move(*first);
}

// A file whose inputs are one sample each, without an axis for more; none: it cannot be read so, or need not be.
std::optional<BuiltGraph> read_as_one_sample(const FlatModel& model, const ImportOptions& options, const FollowedGraph& own) {
  if (!options.batch_axes.empty() || own.reading.symbolic) return std::nullopt;
  if (own.samples == 1) {  // axis 0 of the outputs is that of the sample, too
    const Graph& graph = own.built.graph;
    if (graph.outputs.empty() || graph[graph.outputs[0]].type.shape.rank() == 0 || graph[graph.outputs[0]].type.shape[0] == 1)
      return std::nullopt;
  }
  BatchReading one{.axes = {}, .one_sample = true, .assumed = {}};
  for (const ModelInput& input : model.inputs) {
    one.axes.push_back(no_samples);
    one.assumed.push_back(options.constants.contains(input.name)
                              ? ""
                              : concat("input '", input.name,
                                       "': the file is taken to be for one sample, without an axis for more; ", option("batch_axis"), " ",
                                       input.name, "=0 says otherwise"));
  }
  BuiltGraph built = build_graph(model, options, one, 1, nullptr);
  if (!built.problems.empty()) return std::nullopt;
  for (const ValueId in : built.graph.inputs) built.graph[in].batch = {.axis = 0};
  return built;
}

void mark_samples(FollowedGraph& own) {
  for (std::size_t i = 0; i < own.built.graph.values.size(); ++i) {
    Value& value = own.built.graph.values[i];
    value.batch = own.followed.places[i];
    value.depends_on_batch = value.batch.present();
  }
}

}  // namespace

std::pair<BatchReading, ImportOptions> chosen_reading(const FlatModel& model, const ImportOptions& options) {
  Chosen chosen = choose(model, options, options.batch);
  return {std::move(chosen.own.reading), std::move(chosen.options)};
}

BuiltGraph build_followed(const FlatModel& model, const ImportOptions& asked) {
  Chosen chosen = choose(model, asked, asked.batch);
  const ImportOptions& options = chosen.options;
  FollowedGraph& own = chosen.own;
  const BatchReading& reading = own.reading;
  const std::int64_t batch = options.batch > 0 ? options.batch : reading.samples;
  const bool as_in_file = !reading.symbolic && batch == reading.samples;
  if (!own.built.problems.empty()) {
    if (!reading.symbolic) return std::move(own.built);
    // Told of the batch that was asked for.
    BuiltGraph wanted = build_graph(model, options, reading, batch, nullptr);
    if (wanted.problems.empty()) wanted.problems = std::move(own.built.problems);
    return wanted;
  }
  std::optional<BuiltGraph> one;
  if (!own.followed.reason.empty() && asked.batch > 0) one = read_as_one_sample(model, options, own);
  if (one && batch == 1 && asked.one_sample) return std::move(*one);
  // Samples may meet where the graph is taken as it stands.
  if (as_in_file && (!own.followed.reason.empty() || own.followed.copies.empty())) {
    if (own.followed.reason.empty()) mark_samples(own);
    return std::move(own.built);
  }
  if (!own.followed.reason.empty()) {
    own.built.problems.push_back(problem_of(model, own, chosen.otherwise, one.has_value()));
    return std::move(own.built);
  }
  return build_graph(model, options, reading, batch, &own);
}

}  // namespace tandem
