// Softmax, losses, metrics and ArgMax.
#include <algorithm>

#include "kernels/cuda/bodies/rows.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/native.h"
#include "kernels/cuda/native/nest.h"
#include "kernels/cuda/native/reduction.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t longest_thread_row = 64;  // longer contiguous rows take a block each

struct Labels {
  bool classes = false, wide = false, dense = false;
};
// Class indices, or a number for every score.
std::optional<Labels> labels_of(const Operand& labels, const Operand& scores) {
  if (labels.dtype == DType::int64 || labels.dtype == DType::int32) return Labels{true, labels.dtype == DType::int64, false};
  if (labels.dtype == scores.dtype && labels.shape.elements() == scores.shape.elements()) return Labels{false, false, true};
  return std::nullopt;
}

KernelDescription row_major_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, Layout());
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (o.present()) o.layout = Layout::row_major(o.shape.rank());
  d.efficiency = 0.5;
  return d;
}

template <class Body>
Launches launches_of(const Body& body, std::int64_t blocks) {
  return [body, blocks](void* stream) { launch(body, blocks, stream); };
}

Launches in_turn(std::vector<Launches> all) {
  return [all = std::move(all)](void* stream) {
    for (const Launches& one : all) one(stream);
  };
}

// Sum of a vector that holds what T is computed in.
template <class C>
std::optional<ReductionPlan> plan_sum(std::int64_t count) {
  return plan_reduction(Reduce::sum, false, {dtype_of<C>(), Shape{count}, Layout::row_major(1)}, {0}, {dtype_of<C>(), Shape{}, Layout::row_major(0)});
}

// Rows along an axis: the other axes in y's order.
struct Rows {
  std::int64_t length, stride;
  std::vector<LoopDim> others;
};
Rows rows_of(const Operand& x, int axis, const std::vector<std::int64_t>& order) {
  const std::vector<std::int64_t> strides = strides_of(x);
  Rows r{x.shape[axis], strides[static_cast<std::size_t>(axis)], {}};
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (static_cast<int>(d) != axis) r.others.push_back({x.shape.dims[d], {order[d], strides[d]}});
  r.others = ordered(std::move(r.others));
  return r;
}

}  // namespace

Descriptions describe_softmax(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, request.op == "LogSoftmax" ? "native.log_softmax" : "native.softmax", layout_of(request, rank));
  d.outputs[0].layout = d.inputs[0].layout;
  if (!is_storage_float(d.inputs[0].dtype) || rank == 0 || !fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", -1), rank, "axis");
  const Rows r = rows_of(d.inputs[0], axis, strides_of(d.inputs[0]));
  const auto nest = nest_of<1>(r.others, {1});
  if (!nest) return {};
  const bool logarithm = request.op == "LogSoftmax";
  const std::int64_t count = trips(r.others);
  d.in_place = {{0, 0}};
  d.efficiency = 0.5;
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    d.make = launches([=, length = r.length, stride = r.stride](const Buffers& b) {
      if (length > longest_thread_row && stride == 1) return launches_of(SoftmaxBody<T>{b.in<T>(0), b.out<T>(0), length, stride, *nest, logarithm}, count);
      return launches_of(SoftmaxThreadBody<T>{b.in<T>(0), b.out<T>(0), length, stride, static_cast<std::uint32_t>(count), *nest, logarithm}, blocks_for(count, SoftmaxThreadBody<T>::threads));
    });
  });
  return {d};
}

Descriptions describe_softmax_cross_entropy(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.softmax_cross_entropy");
  const Operand& logits = d.inputs[0];
  const std::optional<Labels> labels = labels_of(d.inputs[1], logits);
  if (!labels || !is_storage_float(logits.dtype) || logits.shape.rank() < 1) return {};
  const std::int64_t classes = logits.shape[logits.shape.rank() - 1];
  const std::int64_t rows = classes == 0 ? 0 : logits.shape.elements() / classes;
  const Attributes& a = *request.attributes;
  bool found = false;
  visit_storage(logits.dtype, [&]<class T>() {
    using C = Compute<T>;
    if (d.outputs[0].dtype != dtype_of<C>()) return;
    const std::optional<ReductionPlan> sum = plan_reduction(Reduce::sum, false, {dtype_of<C>(), Shape{rows}, Layout::row_major(1)}, {0}, d.outputs[0]);
    if (!sum) return;
    found = true;
    const std::int64_t losses = align_up(rows * static_cast<std::int64_t>(sizeof(C)));
    d.workspace = losses + sum->workspace;
    d.in_place = {{1, 0}};
    const CrossEntropyBody<T> body{.classes = classes,
                                   .ignored = a.integer("ignore_index", 0),
                                   .wide = labels->wide,
                                   .ignores = a.has("ignore_index"),
                                   .scale = a.real("scale", 1.0F)};
    d.make = launches([=, sum = *sum, l = *labels](const Buffers& b) -> Launches {
      CrossEntropyBody<T> each = body;
      each.logits = b.in<T>(0);
      each.labels = l.classes ? b.inputs[1] : nullptr;
      each.dense = l.dense ? b.in<T>(1) : nullptr;
      each.losses = reinterpret_cast<C*>(b.workspace);
      each.dlogits = b.out<T>(1);
      auto* const whole = b.workspace + losses;
      return in_turn({launches_of(each, rows), sum.bind(b.workspace, b.outputs[0], whole)});
    });
  });
  return found ? Descriptions{d} : Descriptions{};
}

Descriptions describe_negative_log_likelihood(const KernelRequest& request, Libraries*) {
  const bool backward = request.op == "NegativeLogLikelihoodLossBackward";
  KernelDescription d = row_major_description(request, backward ? "native.negative_log_likelihood_backward" : "native.negative_log_likelihood");
  const Operand& scores = backward ? d.outputs[0] : d.inputs[0];
  const Attributes& a = *request.attributes;
  if (!is_storage_float(scores.dtype) || (d.inputs[1].dtype != DType::int64 && d.inputs[1].dtype != DType::int32)) return {};
  const std::string reduction = a.text("reduction", "mean");
  const std::int64_t classes = scores.shape[1], count = d.inputs[1].shape.elements();
  const std::int64_t places = scores.shape[0] == 0 ? 0 : count / scores.shape[0];
  const bool mean = reduction == "mean", each = reduction == "none", wide = d.inputs[1].dtype == DType::int64, weighted = has(d.inputs, 2);
  bool found = false;
  visit_storage(scores.dtype, [&]<class T>() {
    using C = Compute<T>;
    const std::optional<ReductionPlan> sum = plan_sum<C>(count);
    if (!sum) return;
    found = true;
    const std::int64_t column = align_up(count * static_cast<std::int64_t>(sizeof(C))), one = align_up(sizeof(C));
    d.workspace = 2 * column + 2 * one + sum->workspace;
    d.make = launches([=, sum = *sum, ignored = a.integer("ignore_index", 0), ignores = a.has("ignore_index")](const Buffers& b) -> Launches {
      std::byte *const parts = b.workspace, *const weights = parts + column, *const loss = weights + column, *const total = loss + one, *const rest = total + one;
      const auto at = [](std::byte* p) { return reinterpret_cast<C*>(p); };
      const LikelihoodBody<T> likelihood{backward ? nullptr : b.in<T>(0), b.inputs[1], weighted ? b.in<T>(2) : nullptr, at(parts), at(weights), count, classes, places, ignored, wide, ignores};
      std::vector<Launches> all{launches_of(likelihood, blocks_for(count, LikelihoodBody<T>::threads))};
      if (mean) all.push_back(sum.bind(weights, total, rest));
      if (backward) {
        const std::int64_t elements = count * classes;
        all.push_back(launches_of(LikelihoodBackwardBody<T>{b.in<T>(0), b.inputs[1], at(weights), mean ? at(total) : nullptr, b.out<T>(0), elements, classes, places, wide, each},
                                  blocks_for(elements, LikelihoodBackwardBody<T>::threads)));
      } else if (each) {
        all.push_back(launches_of(QuotientBody<T>{at(parts), nullptr, b.out<T>(0), count}, blocks_for(count, QuotientBody<T>::threads)));
      } else {
        all.push_back(sum.bind(parts, loss, rest));
        all.push_back(launches_of(QuotientBody<T>{at(loss), mean ? at(total) : nullptr, b.out<T>(0), 1}, 1));
      }
      return in_turn(std::move(all));
    });
  });
  return found ? Descriptions{d} : Descriptions{};
}

Descriptions describe_count_correct(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.count_correct");
  const Operand& scores = d.inputs[0];
  const std::optional<Labels> labels = labels_of(d.inputs[1], scores);
  if (!labels || !is_storage_float(scores.dtype) || d.outputs[0].dtype != DType::float32) return {};
  const std::int64_t classes = scores.shape[scores.shape.rank() - 1], rows = classes == 0 ? 0 : scores.shape.elements() / classes;
  const std::optional<ReductionPlan> sum = plan_sum<float>(rows);
  const std::int64_t column = align_up(rows * static_cast<std::int64_t>(sizeof(float)));
  d.workspace = column + sum->workspace;
  visit_storage(scores.dtype, [&]<class T>() {
    d.make = launches([=, sum = *sum, l = *labels](const Buffers& b) -> Launches {
      const CorrectBody<T> body{b.in<T>(0), l.classes ? b.inputs[1] : nullptr, l.dense ? b.in<T>(1) : nullptr, reinterpret_cast<float*>(b.workspace), rows, classes, l.wide};
      return in_turn({launches_of(body, blocks_for(rows, CorrectBody<T>::threads)), sum.bind(b.workspace, b.outputs[0], b.workspace + column)});
    });
  });
  return {d};
}

Descriptions describe_arg(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  const bool largest = request.op == "ArgMax";
  KernelDescription d = description_of(request, largest ? "native.arg_max" : "native.arg_min", layout_of(request, rank));
  d.inputs[0].layout = Layout::row_major(rank);
  d.outputs[0].layout = Layout::row_major(d.outputs[0].shape.rank());
  if (rank == 0 || d.outputs[0].dtype != DType::int64 || !fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", 0), rank, "axis");
  const Rows r = rows_of(d.inputs[0], axis, strides_of(d.inputs[0]));
  const auto nest = nest_of<1>(r.others, {1});
  if (!nest) return {};
  const std::int64_t count = trips(r.others);
  const bool last = request.attributes->integer("select_last_index", 0) != 0;
  const auto make = [&]<class T>() {
    d.make = launches([=, length = r.length, stride = r.stride](const Buffers& b) {
      return launches_of(ArgBody<T>{b.in<T>(0), b.out<std::int64_t>(0), length, stride, static_cast<std::uint32_t>(count), *nest, largest, last}, blocks_for(count, ArgBody<T>::threads));
    });
  };
  const DType dtype = d.inputs[0].dtype;
  if (dtype == DType::int32) make.template operator()<std::int32_t>();
  if (dtype == DType::int64) make.template operator()<std::int64_t>();
  if (is_float(dtype)) visit_storage(dtype, make);
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::cuda
