#include "trainer/template/initialize.h"

#include "base/option.h"
#include "trainer/template/forms.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/spec.h"
#include "data/stream.h"
#include "graph/operator.h"
#include "importer/message/value_tests.h"

namespace tandem {
namespace {

// How a parameter starts: a constant, or random with these fans.
struct Start {
  bool random = false;
  double value = 0;
  double fan_in = 1, fan_out = 1;
};
constexpr Start zeros{false, 0}, ones{false, 1};
Start fans(double in, double out) {
  return {true, 0, std::max(1.0, in), std::max(1.0, out)};
}

double spatial(const Shape& s) {
  double n = 1;
  for (int i = 2; i < s.rank(); ++i) n *= static_cast<double>(s[i]);
  return n;
}

// What a consumer says of the parameter it takes: `shape` is the parameter's as the consumer sees it.
using Rule = Start (*)(const Node& node, int input, const Shape& shape);

// [M, C/group, ...]
Start convolution(const Node& node, int, const Shape& s) {
  const auto group = static_cast<double>(node.attributes.integer("group", 1));
  return s.rank() < 2 ? zeros : fans(static_cast<double>(s[1]) * spatial(s), static_cast<double>(s[0]) / group * spatial(s));
}
// [C, M/group, ...]
Start transposed_convolution(const Node& node, int, const Shape& s) {
  const auto group = static_cast<double>(node.attributes.integer("group", 1));
  return s.rank() < 2 ? zeros : fans(static_cast<double>(s[0]) / group * spatial(s), static_cast<double>(s[1]) * spatial(s));
}
// On the right [..., in, out], on the left [..., out, in]; Gemm's attributes turn them.
Start product(const Node& node, int input, const Shape& s) {
  if (s.rank() < 2) return fans(static_cast<double>(s.elements()), 1);
  const bool turned = node.attributes.integer(input == 0 ? "transA" : "transB", 0) != 0;
  const auto last = static_cast<double>(s[s.rank() - 1]), before = static_cast<double>(s[s.rank() - 2]);
  return turned == (input == 0) ? fans(before, last) : fans(last, before);
}
Start embedding(const Node&, int, const Shape& s) {
  return s.rank() < 2 ? zeros : fans(static_cast<double>(s[s.rank() - 1]), static_cast<double>(s[0]));
}
Start zero(const Node&, int, const Shape&) {
  return zeros;
}
Start one(const Node&, int, const Shape&) {
  return ones;
}
Start slope(const Node&, int, const Shape&) {
  return {false, 0.25};
}

struct Row {
  OperandRole role;
  Rule rule;
};
// A parameter with several uses starts by the row that stands first: statistics before all else, sums and products last.
constexpr Row rows[] = {
    {OperandRole::variance, one},
    {OperandRole::mean, zero},
    {OperandRole::scale, one},
    {OperandRole::filter, convolution},
    {OperandRole::transposed_filter, transposed_convolution},
    {OperandRole::bias, zero},
    {OperandRole::matrix, product},
    {OperandRole::slope, slope},
    {OperandRole::class_weights, one},
    {OperandRole::embedding, embedding},
    {OperandRole::radicand, one},  // a variance, in a normalisation written out
    {OperandRole::addend, zero},
    {OperandRole::factor, one},
    {OperandRole::exponent, one},
};

using Users = std::vector<std::vector<NodeId>>;

// A use of a parameter that a row describes.
struct Role {
  const Row* row = nullptr;
  const Node* node = nullptr;
  int input = 0;
  ValueId value;  // the parameter as the node sees it
  void take(const Role& other) {
    if (other.row && (!row || other.row < row)) *this = other;
  }
};

bool is_number(const Graph& graph, ValueId v) {
  return graph[v].kind == ValueKind::constant && graph[v].type.shape.elements() == 1;
}

// v + epsilon is to a root what v is.
bool adds_epsilon(const Graph& graph, const Users& users, const Node& node) {
  const auto& readers = users[static_cast<std::size_t>(node.outputs[0].index)];
  return node.inputs.size() == 2 && (is_number(graph, node.inputs[0]) || is_number(graph, node.inputs[1])) &&
         std::any_of(readers.begin(), readers.end(), [&](NodeId r) { return operand_of(*graph[r].op, 0).role == OperandRole::radicand; });
}

// `seen`: values on whose readers it was asked already; many ways of views may lead to one.
Role role_of(const Graph& graph, const Users& users, ValueId value, std::set<ValueId>& seen) {
  Role best;
  if (!seen.insert(value).second) return best;
  for (const NodeId user : users[static_cast<std::size_t>(value.index)]) {
    const Node& node = graph[user];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const OperandRole role = operand_of(*node.op, static_cast<int>(i)).role;
      for (const Row& row : rows)
        if (row.role == role) best.take({&row, &node, static_cast<int>(i), value});
      if (!is_view(role) && !(role == OperandRole::addend && adds_epsilon(graph, users, node))) continue;
      for (const ValueId out : node.outputs)
        if (out.present()) best.take(role_of(graph, users, out, seen));
    }
  }
  return best;
}

Start start_of(const Graph& graph, const Users& users, ValueId value) {
  std::set<ValueId> seen;
  if (const Role role = role_of(graph, users, value, seen); role.row)
    return role.row->rule(*role.node, role.input, graph[role.value].type.shape);
  const Shape& s = graph[value].type.shape;  // no consumer says more: a matrix or filter by its shape, a vector as a bias
  return s.rank() < 2
             ? zeros
             : fans(static_cast<double>(s.elements()) / static_cast<double>(std::max<std::int64_t>(1, s[0])), static_cast<double>(s[0]));
}

bool drawable(const Value& v) {
  return v.type.dtype == DType::float32 || v.type.dtype == DType::float64;
}

bool alike(const Tensor& values) {
  const bool all = all_alike(values);
  values.release();
  return all;
}

// No weight that has to start at random does.
bool untrained(const Graph& graph, const Users& users) {
  bool any = false;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    if (v.kind != ValueKind::parameter || v.role != ValueRole::plain || !v.trainable || !drawable(v)) continue;
    if (v.type.shape.elements() < 2 || !start_of(graph, users, {static_cast<int>(i)}).random) continue;
    if (v.data && !alike(*v.data)) return false;
    any = true;
  }
  return any;
}

// Whether there is what loses the half of the variance that he-normal makes up for.
bool rectifies(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op->rectifies; });
}

// Drawn when they are asked for, the same each time. Pieces are asked for in their order; what stands before another piece is drawn again.
class DrawnValues final : public TensorSource {
 public:
  DrawnValues(const Value& value, const Start& start, bool glorot, std::uint64_t seed)
      : dtype_(value.type.dtype), start_(start), glorot_(glorot), first_(seed, stream_of(value.name)), random_(first_) {}

  void read(std::span<std::byte> to, std::int64_t offset) const override {
    visit_float(dtype_, [&]<class T>() {
      const std::int64_t begin = offset / static_cast<std::int64_t>(sizeof(T));
      if (begin < next_) random_ = first_, next_ = 0;
      for (; next_ < begin; ++next_) draw();
      const std::span<T> values(reinterpret_cast<T*>(to.data()), to.size() / sizeof(T));
      for (T& v : values) v = static_cast<T>(draw());
      next_ += std::ssize(values);
    });
  }

 private:
  double draw() const {
    const double deviation = std::sqrt(2 / start_.fan_in), limit = std::sqrt(6 / (start_.fan_in + start_.fan_out));
    return !start_.random ? start_.value : glorot_ ? random_.uniform(-limit, limit) : deviation * random_.normal();
  }

  const DType dtype_;
  const Start start_;
  const bool glorot_;
  const Random first_;
  mutable Random random_;
  mutable std::int64_t next_ = 0;  // element
};

Tensor draw(const Value& value, const Start& start, bool glorot, std::uint64_t seed) {
  return {TensorType{value.type.dtype, value.template_shape}, std::make_shared<DrawnValues>(value, start, glorot, seed)};
}

}  // namespace

void check_initialization(std::string_view how) {
  const std::vector<std::string> known{"auto", "keep", "he-normal", "glorot-uniform", "training-info"};
  if (std::find(known.begin(), known.end(), how) == known.end())
    fail(ExitCode::usage, option("init"), ": unknown initialisation '", how, "'", suggestion(how, known));
}

Initial initialize(const Graph& graph, std::string_view how, std::uint64_t seed) {
  check_initialization(how);
  const auto users = graph.consumers();
  Initial initial;
  if (how == "auto") {
    const bool draws = untrained(graph, users);
    how = !draws ? "keep" : rectifies(graph) ? "he-normal" : "glorot-uniform";
    if (draws) initial.chosen = how;
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind != ValueKind::parameter) continue;
    if (value.role == ValueRole::teacher) initial.teacher.push_back({value.name, *value.data});
    if (value.role != ValueRole::plain) continue;
    const ValueId id{static_cast<int>(i)};
    if (value.data && (how == "keep" || !drawable(value))) {
      initial.values.push_back({value.name, *value.data});
      const bool drawn = !value.name.ends_with(".lora_B") && drawable(value) && value.trainable && value.data->elements() > 1;
      if (drawn && start_of(graph, users, id).random && alike(*value.data))
        initial.constant.push_back(value.name);
      continue;
    }
    if (!drawable(value)) fail("parameter '", value.name, "' of type ", value.type, " has no values in the template and cannot be drawn");
    if (how == "keep") initial.missing.push_back(value.name);
    initial.values.push_back({value.name, draw(value, start_of(graph, users, id), how == "glorot-uniform", seed)});
  }
  return initial;
}

}  // namespace tandem
