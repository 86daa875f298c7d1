// Steps that need products or norms of matrices are composed of the operators that kernels know. Sources: Shazeer and Stern,
// "Adafactor", 2018; Jordan et al., "Muon", 2024; both as in torch.optim.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "graph/operator.h"
#include "graph/step_scalars.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

class Composer {
 public:
  Composer(Graph& graph, const OptimizerOptions& o, const Attributes& attributes, ValueId scalars, ValueId parameter)
      : graph_(graph),
        o_(o),
        attributes_(attributes),
        scalars_(scalars),
        parameter_(parameter),
        value_(graph[parameter]),
        b_(graph, concat("update/", value_.name), {}) {}

  void run(ValueId gradient, ValueId average) {
    ValueId g = gradient;
    if (b_.type(g).dtype != dtype()) g = b_.emit("Cast", {g}, {{"to", static_cast<std::int64_t>(dtype())}});
    g = b_.mul(g, b_.div(field(offsetof(StepScalars, clip)), field(offsetof(StepScalars, loss_scale))));
    if (o_.clip_parameter_norm > 0) {
      const ValueId most = b_.div(b_.scalar(o_.clip_parameter_norm, dtype()), b_.add(norm(g), 1e-6));
      g = b_.mul(g, b_.emit("Min", {most, b_.scalar(1, dtype())}));
    }
    if (o_.clip_value > 0) g = b_.emit("Max", {b_.emit("Min", {g, b_.scalar(o_.clip_value, dtype())}), b_.scalar(-o_.clip_value, dtype())});
    rate_ = b_.mul(field(offsetof(StepScalars, learning_rate)), static_cast<double>(attributes_.real("rate", 1)));
    decay_ = static_cast<double>(attributes_.real("weight_decay", 0));
    const ValueId now = o_.name == "muon" ? muon(g) : adafactor(g);
    Attributes how;
    if (attributes_.has("from")) how.set("from", attributes_.real("from"));
    if (average.present()) how.set("average", std::int64_t{1});
    assign(parameter_, now, std::move(how), average);
  }

 private:
  DType dtype() const { return value_.type.dtype; }

  // One of the step's numbers, as a scalar of the parameter's type.
  ValueId field(std::size_t offset) {
    const auto at = static_cast<std::int64_t>(offset / sizeof(float));
    ValueId v = b_.reshape(
        b_.emit("Slice", {scalars_}, {{"starts", Ints{at}}, {"ends", Ints{at + 1}}, {"axes", Ints{0}}, {"steps", Ints{1}}}), Shape{});
    return dtype() == DType::float32 ? v : b_.emit("Cast", {v}, {{"to", static_cast<std::int64_t>(dtype())}});
  }

  ValueId state(std::string_view name, const Shape& shape) {
    Value v{.name = concat(name, '/', value_.name),
            .type = {dtype(), shape},
            .kind = ValueKind::parameter,
            .role = ValueRole::optimizer_state,
            .of = value_.name,
            .template_shape = shape};
    v.placement = value_.placement;
    return graph_.add_value(std::move(v));
  }

  void assign(ValueId to, ValueId now, Attributes attributes = {}, ValueId average = {}) {
    attributes.set("tensors", std::int64_t{1});
    std::vector<ValueId> inputs{scalars_, to, now};
    if (average.present()) inputs.push_back(average);
    graph_.add_node(internal_operator("AssignUpdate"), concat("update/", graph_[to].name), std::move(attributes), std::move(inputs),
                    average.present() ? 2 : 1);
  }

  ValueId mean_of_squares(ValueId x, Ints axes, bool keepdims) {
    return b_.emit("ReduceMean", {b_.mul(x, x)}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{keepdims}}});
  }
  Ints all_axes(ValueId x) {
    Ints axes;
    for (int i = 0; i < b_.shape(x).rank(); ++i) axes.push_back(i);
    return axes;
  }
  ValueId rms(ValueId x) {
    return b_.shape(x).rank() == 0 ? b_.emit("Abs", {x}) : b_.emit("Sqrt", {mean_of_squares(x, all_axes(x), false)});
  }
  ValueId norm(ValueId x) { return b_.mul(rms(x), std::sqrt(static_cast<double>(b_.shape(x).elements()))); }
  ValueId sqrt(ValueId x) { return b_.emit("Sqrt", {x}); }
  ValueId most(ValueId x, double least) { return b_.emit("Max", {x, b_.scalar(least, dtype())}); }

  ValueId decayed() { return decay_ == 0 ? parameter_ : b_.mul(parameter_, b_.add(b_.mul(rate_, -decay_), 1)); }

  // A mean of squares that moves by t^−0.8.
  ValueId moved(std::string_view name, ValueId squares, ValueId share) {
    const ValueId before = state(name, b_.shape(squares)), now = b_.add(before, b_.mul(b_.sub(squares, before), share));
    assign(before, now);
    return now;
  }

  ValueId adafactor(ValueId g) {
    const double least =
        dtype() == DType::float64 ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon());
    const ValueId t = field(offsetof(StepScalars, step));
    const ValueId share = b_.emit("Pow", {t, b_.scalar(-0.8, dtype())});
    const ValueId bound = b_.div(b_.scalar(1, dtype()), sqrt(t)), relative = b_.emit("Min", {rate_, bound});
    const ValueId alpha = b_.mul(most(rms(parameter_), o_.epsilon), relative);
    const int rank = value_.type.shape.rank();
    ValueId variance;
    if (rank > 1) {
      const ValueId row = moved("adafactor_row", mean_of_squares(g, {rank - 1}, true), share),
                    column = moved("adafactor_column", mean_of_squares(g, {rank - 2}, true), share);
      const ValueId mean = b_.emit("ReduceMean", {row}, {{"axes", Ints{rank - 2}}, {"keepdims", std::int64_t{1}}});
      variance = b_.mul(row, b_.div(column, most(mean, least)));
    } else {
      variance = moved("adafactor_v", b_.mul(g, g), share);
    }
    const ValueId step = b_.div(g, sqrt(most(variance, least * least)));
    return b_.sub(decayed(), b_.mul(step, b_.div(alpha, most(rms(step), 1))));
  }

  // X becomes nearly orthogonal: five steps of Newton and Schulz.
  ValueId orthogonal(ValueId x) {
    constexpr double a = 3.4445, b = -4.775, c = 2.0315;
    const bool high = b_.shape(x)[0] > b_.shape(x)[1];
    if (high) x = b_.transpose(x, {1, 0});
    x = b_.div(x, most(norm(x), 1e-7));
    for (int step = 0; step < 5; ++step) {
      const ValueId gram = b_.emit("MatMul", {x, b_.transpose(x, {1, 0})});
      const ValueId polynomial = b_.add(b_.mul(gram, b), b_.mul(b_.emit("MatMul", {gram, gram}), c));
      x = b_.add(b_.mul(x, a), b_.emit("MatMul", {polynomial, x}));
    }
    return high ? b_.transpose(x, {1, 0}) : x;
  }

  ValueId muon(ValueId g) {
    const ValueId before = state("momentum", value_.type.shape), m = b_.add(b_.mul(before, o_.momentum), b_.mul(g, 1 - o_.momentum));
    assign(before, m);
    const ValueId step = o_.nesterov ? b_.add(b_.mul(g, 1 - o_.momentum), b_.mul(m, o_.momentum)) : m;
    const double rows = static_cast<double>(value_.template_shape[0]), columns = static_cast<double>(value_.template_shape[1]);
    return b_.sub(decayed(), b_.mul(orthogonal(step), b_.mul(rate_, std::sqrt(std::max(1.0, rows / columns)))));
  }

  Graph& graph_;
  const OptimizerOptions& o_;
  const Attributes attributes_;
  const ValueId scalars_, parameter_;
  const Value value_;
  GraphBuilder b_;
  ValueId rate_;
  double decay_ = 0;
};

}  // namespace

bool is_composed(const Value& parameter, const OptimizerOptions& o) {
  return o.name == "adafactor" || (o.name == "muon" && parameter.template_shape.rank() == 2 && parameter.type.shape.rank() == 2);
}

void compose_update(Graph& graph, const OptimizerOptions& o, const Attributes& attributes, ValueId scalars, ValueId parameter,
                    ValueId gradient, ValueId average) {
  Composer(graph, o, attributes, scalars, parameter).run(gradient, average);
}

}  // namespace tandem
