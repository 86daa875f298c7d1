// Lists of tensors (ONNX's sequences) and optional values are gone when a graph is built: a list is the symbols of its tensors, in order,
// and must be as long as is known then.
#include <algorithm>

#include "importer/build/builder.h"
#include "importer/message/limits.h"

namespace tandem {

const Builder::ListRow* Builder::list_row(const FlatNode& node) {
  static constexpr ListRow rows[] = {
      {"SequenceEmpty", &Builder::sequence_construct},     {"SequenceConstruct", &Builder::sequence_construct},
      {"SequenceInsert", &Builder::sequence_insert},       {"SequenceErase", &Builder::sequence_erase},
      {"SequenceAt", &Builder::sequence_at},               {"SequenceLength", &Builder::sequence_length},
      {"SequenceMap", &Builder::sequence_map},             {"SplitToSequence", &Builder::split_to_sequence},
      {"ConcatFromSequence", &Builder::concat_from_sequence}, {"Optional", &Builder::optional},
      {"OptionalGetElement", &Builder::optional},          {"OptionalHasElement", &Builder::optional_has_element},
  };
  if (!node.domain.empty()) return nullptr;
  for (const ListRow& row : rows)
    if (row.op == node.op) return &row;
  return nullptr;
}

void Builder::run_list(const FlatNode& node, const ListRow& row) {
  for (const Symbol in : node.inputs)
    if (in.present() && !built(in)) return;
  if (node.outputs.size() != 1 && node.op != "SequenceMap") fail("it has ", node.outputs.size(), " outputs, expected one");
  (this->*row.run)(node);
}

const Builder::List& Builder::list(const FlatNode& node, std::size_t input) {
  const auto found = lists_.find(node.inputs.at(input).index);
  if (found == lists_.end()) fail("its input ", input, " is no list of tensors");
  return found->second;
}

// A place in a list of `size`, counted from its end where it is negative; absent: the last that may be given.
std::size_t Builder::position(const FlatNode& node, std::size_t input, std::int64_t size, std::int64_t last) {
  const Symbol s = input < node.inputs.size() ? node.inputs[input] : Symbol{};
  std::int64_t at = last;
  if (s.present()) {
    const Tensor* given = known(s);
    if (!given || given->elements() != 1) fail("its position is computed from data; it must be known when the plan is made");
    at = given->to_int64s()[0];
    if (at < 0) at += size;
  }
  if (at < 0 || at > last) fail("its position is ", at, " in a list of ", size);
  return static_cast<std::size_t>(at);
}

void Builder::sequence_construct(const FlatNode& node) {
  for (const Symbol in : node.inputs)
    if (!in.present() || !value(in).present()) fail("its operands are no tensors");
  lists_[node.outputs[0].index] = node.inputs;
}

void Builder::sequence_insert(const FlatNode& node) {
  List now = list(node, 0);
  const auto size = static_cast<std::int64_t>(now.size());
  count_list(size);
  now.insert(now.begin() + static_cast<std::ptrdiff_t>(position(node, 2, size, size)), node.inputs.at(1));
  lists_[node.outputs[0].index] = std::move(now);
}

void Builder::sequence_erase(const FlatNode& node) {
  List now = list(node, 0);
  const auto size = static_cast<std::int64_t>(now.size());
  count_list(size);
  now.erase(now.begin() + static_cast<std::ptrdiff_t>(position(node, 1, size, size - 1)));
  lists_[node.outputs[0].index] = std::move(now);
}

void Builder::sequence_at(const FlatNode& node) {
  const List& from = list(node, 0);
  const auto size = static_cast<std::int64_t>(from.size());
  hand(from[position(node, 1, size, size - 1)], node.outputs[0]);
}

void Builder::sequence_length(const FlatNode& node) {
  value(node.outputs[0]) = graph().add_constant(name(node.outputs[0]), Tensor::scalar(static_cast<std::int64_t>(list(node, 0).size())));
}

// The body for each element; operands that are tensors are the same for all.
void Builder::sequence_map(const FlatNode& node) {
  const FlatBody& body = body_of(node, "body");
  const List first = list(node, 0);
  if (body.inputs.size() != node.inputs.size()) fail("its body takes ", body.inputs.size(), " inputs, expected ", node.inputs.size());
  if (body.outputs.size() < node.outputs.size()) fail("its body gives ", body.outputs.size(), " outputs, expected ", node.outputs.size());
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    if (const auto found = lists_.find(node.inputs[i].index); found != lists_.end() && found->second.size() != first.size())
      fail("its lists have ", first.size(), " and ", found->second.size(), " elements");
  std::vector<List> results(node.outputs.size());
  for (std::size_t t = 0; t < first.size(); ++t) {
    count_iteration(body);
    const FlatBody now = instantiate(body, concat('#', t));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = lists_.find(node.inputs[i].index);
      hand(found == lists_.end() ? node.inputs[i] : found->second[t], now.inputs[i]);
    }
    const std::size_t problems = built_.problems.size();
    run(now);
    if (built_.problems.size() > problems) return;
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(now.outputs[i]);
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (node.outputs[i].present()) lists_[node.outputs[i].index] = std::move(results[i]);
}

// Parts of these sizes along the axis, which goes where each holds one element and `keep` is not set.
Builder::List Builder::split(const FlatNode& of, Symbol in, std::int64_t axis, const Ints& sizes, bool keep, const std::string& suffix) {
  FlatNode node;
  node.id = of.id;
  node.iteration = concat(of.iteration, '/', suffix);
  node.name = concat(of.name, '/', suffix);
  node.op = "Split";
  node.opset = limits::newest_opset;
  node.attributes.set("axis", axis);
  node.inputs = {in, constant(of, Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(sizes.size())}, sizes), suffix + "/sizes")};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    node.outputs.push_back(new_symbol(concat(node.name, '#', i), {}, concat(of.id, node.iteration, '#', i)));
  List parts = node.outputs;
  if (!parts.empty()) attempt(node);
  if (keep) return parts;
  const Symbol axes = constant(of, Tensor::of<std::int64_t>(Shape{1}, Ints{axis}), suffix + "/axis");
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = emit(of, "Squeeze", {parts[i], axes}, {}, concat(suffix, "/iteration#", i));
  return parts;
}

namespace {

// Each is a value of its own, before there is a list of them.
void count_parts(std::int64_t parts) {
  if (parts > limits::unrolled_nodes) fail("it gives ", parts, " tensors, expected at most ", limits::unrolled_nodes);
}

}  // namespace

void Builder::split_to_sequence(const FlatNode& node) {
  const Symbol in = node.inputs.at(0);
  if (!value(in).present()) fail("its input is no tensor");
  const Shape shape = graph()[value(in)].type.shape;
  const int axis = normalize_axis(node.attributes.integer("axis", 0), shape.rank(), "axis");
  const std::int64_t length = shape[axis];
  Ints sizes;
  const bool given = node.inputs.size() > 1 && node.inputs[1].present();
  if (given) {
    const Tensor* split = known(node.inputs[1]);
    if (!split) fail("its parts' sizes are computed from data; they must be known when the plan is made");
    sizes = split->to_int64s();
    if (split->shape().rank() == 0) {
      if (sizes[0] < 1) fail("its parts have ", sizes[0], " elements");
      const std::int64_t size = sizes[0];
      count_parts(length / size);
      sizes.assign(static_cast<std::size_t>(length / size), size);
      if (length % size) sizes.push_back(length % size);
    }
  } else {
    count_parts(length);
    sizes.assign(static_cast<std::size_t>(length), 1);
  }
  const bool keep = given || node.attributes.integer("keepdims", 1) != 0;
  lists_[node.outputs[0].index] = split(node, in, axis, sizes, keep, "parts");
}

void Builder::concat_from_sequence(const FlatNode& node) {
  const List& parts = list(node, 0);
  if (parts.empty()) fail("its list is empty, so the shape of its output is not known");
  const std::int64_t axis = node.attributes.integer("axis");
  const bool new_axis = node.attributes.integer("new_axis", 0) != 0;
  Symbol whole = new_axis ? stacked(node, parts, axis, "parts") : axis == 0 ? joined(node, parts, false, "parts") : Symbol{};
  if (!whole.present()) whole = emit(node, "Concat", parts, {{"axis", axis}}, "parts");
  hand(whole, node.outputs[0]);
  if (value(whole).present()) rename(value(whole), node.outputs[0]);
}

// An optional value that is there is what it holds.
void Builder::optional(const FlatNode& node) {
  if (node.inputs.empty() || !node.inputs[0].present()) {
    lists_[node.outputs[0].index] = {};
    hollow_.insert(node.outputs[0].index);
    return;
  }
  if (hollow_.contains(node.inputs[0].index)) fail("its operand holds nothing");
  hand(node.inputs[0], node.outputs[0]);
}

void Builder::optional_has_element(const FlatNode& node) {
  const bool there = !node.inputs.empty() && node.inputs[0].present() && !hollow_.contains(node.inputs[0].index);
  value(node.outputs[0]) = graph().add_constant(name(node.outputs[0]), Tensor::scalar(there));
}

// Lists that grow in a list are copied each time.
void Builder::count_list(std::int64_t size) {
  list_elements_ += size;
  if (list_elements_ > limits::list_elements) fail("the model's lists hold more than ", limits::list_elements, " tensors");
}

}  // namespace tandem
