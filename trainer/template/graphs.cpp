// The graph that plans are made of: the model as options have it, with what losses and a teacher of other files add; and the losses on it.
#include <algorithm>

#include "base/option.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "importer/batch/samples_first.h"
#include "importer/build/drop_unread.h"
#include "planner/check_options.h"
#include "planner/loss/external_loss.h"
#include "planner/loss/loss_value.h"
#include "planner/loss/losses.h"
#include "trainer/template/forms.h"
#include "trainer/template/graph_file.h"
#include "trainer/template/model_template.h"
#include "trainer/template/teacher.h"

namespace tandem {
namespace {

// Three outputs "a+b+c" of one shape [N,...] as one value [N,3,...] of that name; none where they are not there.
std::optional<ValueId> three_as_one(Graph& graph, const std::string& name) {
  std::vector<ValueId> parts;
  for (const std::string& part : split(name, '+'))
    if (const auto value = graph.find(part)) parts.push_back(*value);
  if (parts.size() != 3) return std::nullopt;
  const Value first = graph[parts[0]];
  Shape one = first.type.shape;
  if (one.rank() == 0) return std::nullopt;
  one.dims.insert(one.dims.begin() + 1, 1);
  GraphBuilder b(graph, name, {});
  for (ValueId& part : parts) {
    if (b.type(part) != first.type)
      fail(ExitCode::usage, "loss on ", name, ": '", graph[part].name, "' is ", b.type(part), ", '", first.name, "' is ", first.type,
           ", expected three alike");
    part = b.reshape(part, one);
  }
  const ValueId all = b.emit("Concat", parts, {{"axis", std::int64_t{1}}});
  graph[all].name = name;
  for (const ValueId v : {parts[0], parts[1], parts[2], all}) {
    graph[v].depends_on_batch = first.depends_on_batch;
    graph[v].batch = first.batch;
  }
  return all;
}

ValueId value_named(const Graph& graph, const std::string& name) {
  if (const auto value = graph.find(name); value && graph[*value].depends_on_batch) return *value;
  std::vector<std::string> names;
  for (const Value& v : graph.values)
    if (v.depends_on_batch) names.push_back(v.name);
  const std::string near = nearest(name, names);
  fail(ExitCode::usage, option("outputs"), " '", name, "': model '", graph.name, "' computes no value of that name",
       near.empty() ? "" : concat(", did you mean '", near, "'?"));
}

}  // namespace

Graph without_unneeded_inputs(Graph graph, const CompileOptions* losses) {
  std::vector<ValueId> roots(graph.outputs.begin(), graph.outputs.end());
  if (losses) try {
      roots = logits_of(graph, *losses);
    } catch (const Error&) {  // it has no loss: said where one is asked for
    }
  std::vector<bool> needed(graph.values.size());
  const auto mark = [&](std::vector<bool>& marked, const std::vector<ValueId>& from) {
    for (const ValueId v : from) marked[static_cast<std::size_t>(v.index)] = true;
    for (std::size_t n = graph.nodes.size(); n-- > 0;) {
      const Node& node = graph.nodes[n];
      if (std::ranges::any_of(node.outputs, [&](ValueId v) { return v.present() && marked[static_cast<std::size_t>(v.index)]; }))
        for (const ValueId in : node.inputs)
          if (in.present()) marked[static_cast<std::size_t>(in.index)] = true;
    }
  };
  mark(needed, roots);
  const auto unneeded = [&](ValueId in) { return graph[in].role == ValueRole::plain && !needed[static_cast<std::size_t>(in.index)]; };
  if (std::ranges::none_of(graph.inputs, unneeded)) return graph;
  std::erase_if(graph.outputs, [&](const GraphOutput& out) {
    std::vector<bool> own(graph.values.size());
    mark(own, {out.value});
    return std::ranges::any_of(graph.inputs, [&](ValueId in) { return unneeded(in) && own[static_cast<std::size_t>(in.index)]; });
  });
  std::erase_if(graph.inputs, unneeded);
  drop_unread(graph);
  return graph;
}

const ModelFile& ModelTemplate::other_file(const std::string& path) const {
  const auto known = others_.find(path);
  return known != others_.end() ? known->second : others_.emplace(path, ModelFile::read(path)).first->second;
}

std::vector<std::optional<GraphFile>> ModelTemplate::loss_files(const ModelOptions& o, const Graph& graph) const {
  std::vector<std::optional<GraphFile>> files;
  for (const LossTerm& term : parse_loss(o.plan.loss.name)) {
    files.emplace_back();
    if (term.file.empty()) continue;
    CompileOptions on = o.plan;
    if (!term.output.empty()) on.loss.on = term.output;
    files.back().emplace(term.file, other_file(term.file), graph, graph[model_value(graph, on)].name);
  }
  return files;
}

void ModelTemplate::add_teacher(Graph& graph, const ModelOptions& o, std::int64_t batch) const {
  const std::string path = o.teacher.string();
  const Teacher teacher(path, other_file(path), graph);
  const ValueId student = student_value(graph, o.plan);
  teacher.attach(graph, student, batch, o.dims, std::string(teacher_prefix));
}

GraphSource ModelTemplate::graphs_with_losses(const ModelOptions& o) const {
  const std::vector<LossTerm> terms = parse_loss(o.plan.loss.name);
  return [this, o, terms, plain = plain_graphs(o)](std::int64_t batch) {
    Graph graph = plain(batch);
    const std::vector<std::optional<GraphFile>> files = loss_files(o, graph);
    const bool in_steps = o.plan.parallel.micro_batches != 1;
    for (std::size_t i = 0; i < files.size(); ++i)
      if (files[i]) {
        const std::string labels = terms.size() > 1 ? terms[i].output : std::string();
        const ValueId loss = files[i]->attach(graph, batch, o.dims, labels, concat(terms[i].file, '/'), in_steps);
        graph[loss].role = ValueRole::file_loss;
        graph[loss].of = terms[i].output.empty() ? o.plan.loss.on : terms[i].output;
      }
    if (!o.teacher.empty()) add_teacher(graph, o, batch);
    return graph;
  };
}

GraphSource ModelTemplate::graphs(const ModelOptions& o, std::size_t bucket, const std::vector<std::string>& outputs) const {
  const ModelOptions at = in_bucket(o, bucket);
  const std::vector<std::string>& values = outputs.empty() ? at.outputs : outputs;
  const bool trains = at.plan.mode == PlanMode::training && outputs.empty();
  const bool losses = values.empty() && (trains || at.measures) && !has_external_loss(at.plan);
  const GraphSource whole = trains ? graphs_with_losses(at) : plain_graphs(at, values);
  return [whole, plan = at.plan, losses](std::int64_t batch) { return without_unneeded_inputs(whole(batch), losses ? &plan : nullptr); };
}

GraphSource ModelTemplate::graphs(const ModelOptions& o, const PlanKey& key, const Losses& on) const {
  if (key.evaluation.losses.empty()) return graphs(o, key.bucket, key.outputs);
  ModelOptions whole = o;  // of any values that predict() gives
  whole.outputs.clear();
  return [plain = graphs(whole, key.bucket), on, outputs = key.evaluation, plan = in_bucket(o, key.bucket).plan](std::int64_t batch) {
    return evaluating(plain(batch), on, outputs, plan, batch);
  };
}

GraphSource ModelTemplate::plain_graphs(const ModelOptions& o, const std::vector<std::string>& outputs) const {
  const bool training = o.plan.mode == PlanMode::training;
  std::vector<std::string> values;
  for (const CompileOptions& one : options_of_losses(o.plan))
    if (!one.loss.on.empty()) values.push_back(one.loss.on);
  return [this, o, training, values, outputs](std::int64_t batch) {
    Graph graph = file_.graph(import_options(o, batch, training));
    if (!outputs.empty()) {
      graph.outputs.clear();
      for (const std::string& name : outputs) graph.outputs.push_back(samples_first(graph, value_named(graph, name)));
      return graph;
    }
    // What a loss is measured on is an output of the plan that evaluates; one that trains goes by the losses alone.
    for (const std::string& name : values) {
      auto value = graph.find(name) ? graph.find(name) : three_as_one(graph, name);
      if (value && graph[*value].kind == ValueKind::activation) value = samples_first(graph, *value);
      if (value && std::find(graph.outputs.begin(), graph.outputs.end(), *value) == graph.outputs.end()) graph.outputs.push_back(*value);
    }
    if (!training)
      for (const std::optional<GraphFile>& loss : loss_files(o, graph))
        for (const FileInput& input : loss ? loss->inputs() : std::vector<FileInput>{})
          if (input.of == FileInput::Of::value && graph[*graph.find(input.value)].kind == ValueKind::activation &&
              std::find(graph.outputs.begin(), graph.outputs.end(), *graph.find(input.value)) == graph.outputs.end())
            graph.outputs.push_back(*graph.find(input.value));
    return graph;
  };
}

Losses ModelTemplate::losses_if_any(const ModelOptions& o, std::size_t bucket) const {
  try {
    return losses_for(o, bucket);
  } catch (const Error&) {
    if (o.plan.mode == PlanMode::training) throw;
    return {};
  }
}

Losses ModelTemplate::losses_for(const ModelOptions& o, std::size_t bucket) const {
  for (const CompileOptions& one : options_of_losses(o.plan)) {
    if (one.loss.on.empty() || !parse_loss(one.loss.name)[0].file.empty()) continue;
    const Graph graph = graphs(o, bucket)(std::max<std::int64_t>(1, o.micro_batch()));
    std::vector<std::string> names;
    const bool own = parse_loss(one.loss.name)[0].loss == "output";  // may be a number of the whole batch
    for (const Value& v : graph.values)
      if (v.depends_on_batch || (own && v.kind == ValueKind::activation)) names.push_back(v.name);
    if (std::find(names.begin(), names.end(), one.loss.on) != names.end()) continue;
    const std::string near = nearest(one.loss.on, names),
                      of = concat(option("loss_on"), " ", one.loss.on, ": model '", graph.name, "' computes no value of that name");
    if (!near.empty()) fail(ExitCode::usage, of, ", did you mean '", near, "'?");
    std::vector<std::string> outputs;
    for (const ValueId out : graph.outputs) outputs.push_back(graph[out].name);
    fail(ExitCode::usage, of, " (its outputs: ", list_some(outputs), ")");
  }
  return tandem::losses_of(graphs_with_losses(in_bucket(o, bucket)), of_micro_batch(o.plan));
}

void ModelTemplate::check_buckets(const ModelOptions& o) const {
  for (const auto& [name, sizes] : o.buckets) {
    if (sizes.size() != bucket_count(o))
      fail(ExitCode::usage, option("dims"), ": '", name, "' has ", sizes.size(), " sizes, '", o.buckets.begin()->first, "' ",
           bucket_count(o), ": expected as many, the first ones for the first bucket and so on");
    if (std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) != sizes.end() || sizes.empty() || sizes[0] < 1 ||
        sizes.size() > 255)
      fail(ExitCode::usage, option("dims"), ": the sizes of '", name, "' must rise, from 1 on; there may be 255 of them");
  }
  std::map<std::string, Shape> whole;
  for (std::size_t bucket = 0; bucket < bucket_count(o) && bucket_count(o) > 1; ++bucket)
    for (const Graph graph = graphs(o, bucket)(o.micro_batch()); const Value& v : graph.values) {
      if (v.kind != ValueKind::parameter) continue;
      const auto [it, added] = whole.emplace(v.name, v.type.shape);
      const auto& [dim, sizes] = *o.buckets.begin();
      if (it->second != v.type.shape || (added && bucket > 0))
        fail(ExitCode::usage, option("dims"), ": the sizes of '", dim, "' cannot share the weight '", v.name, "', which is ", v.type.shape,
             " at ", sizes[sizes.size() - 1 - bucket], added ? std::string(" and absent") : concat(" and ", it->second), " at ",
             sizes.back(), ": expected one size");
    }
}

}  // namespace tandem
