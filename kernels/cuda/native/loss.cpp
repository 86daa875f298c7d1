// Losses, their gradients and the count of correct predictions, a line of scores at a time.
#include "kernels/cuda/bodies/loss.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/reduce.h"

namespace tandem::cuda {
namespace {

struct Labels {
  bool classes = false, wide = false, dense = false;
};
// Class indices, or a number for every score.
std::optional<Labels> labels_of(const Operand& labels, const Operand& scores) {
  if (labels.dtype == DType::int64 || labels.dtype == DType::int32) return Labels{true, labels.dtype == DType::int64, false};
  if (labels.dtype == scores.dtype && labels.shape.elements() == scores.shape.elements()) return Labels{false, false, true};
  return std::nullopt;
}

// Sum of a vector that holds what T is computed in.
template <class C>
std::optional<ReductionPlan> plan_sum(std::int64_t count, const KernelOptions& options) {
  return plan_reduction(Reduce::sum, false, {dtype_of<C>(), Shape{count}, Layout::row_major(1)}, {0},
                        {dtype_of<C>(), Shape{}, Layout::row_major(0)}, options);
}

}  // namespace

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
    const std::optional<ReductionPlan> sum =
        plan_reduction(Reduce::sum, false, {dtype_of<C>(), Shape{rows}, Layout::row_major(1)}, {0}, d.outputs[0], request.options);
    if (!sum) return;
    found = true;
    const std::int64_t losses = align_up(rows * static_cast<std::int64_t>(sizeof(C)));
    d.workspace = losses + sum->workspace;
    d.passes = 1.5;  // the scores are read twice
    d.in_place = {{1, 0}};
    d.make = launches([=, sum = *sum, l = *labels, ignored = a.integer("ignore_index", 0), ignores = a.has("ignore_index"),
                       scale = a.real("scale", 1.0F)](const Buffers& b) -> Launches {
      C* const each = reinterpret_cast<C*>(b.workspace);
      const auto whole = sum.bind(b.workspace, b.outputs[0], b.workspace + losses);
      if (l.dense)
        return in_turn({launches_of(DenseCrossEntropyBody<T>{b.in<T>(0), b.in<T>(1), each, b.out<T>(1), classes, scale}, rows), whole});
      return in_turn(
          {launches_of(CrossEntropyBody<T>{b.in<T>(0), b.inputs[1], each, b.out<T>(1), classes, ignored, l.wide, ignores, scale}, rows),
           whole});
    });
  });
  return found ? Descriptions{d} : Descriptions{};
}

Descriptions describe_negative_log_likelihood(const KernelRequest& request, Libraries*) {
  const bool backward = request.op == "NegativeLogLikelihoodLossBackward";
  KernelDescription d =
      row_major_description(request, backward ? "native.negative_log_likelihood_backward" : "native.negative_log_likelihood");
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
    const std::optional<ReductionPlan> sum = plan_sum<C>(count, request.options);
    if (!sum) return;
    found = true;
    const std::int64_t column = align_up(count * static_cast<std::int64_t>(sizeof(C))), one = align_up(sizeof(C));
    d.workspace = 2 * column + 2 * one + sum->workspace;
    d.make = launches([=, sum = *sum, ignored = a.integer("ignore_index", 0),
                       ignores = a.has("ignore_index")](const Buffers& b) -> Launches {
      std::byte *const parts = b.workspace, *const weights = parts + column, *const loss = weights + column, *const total = loss + one,
                       *const rest = total + one;
      const auto at = [](std::byte* p) { return reinterpret_cast<C*>(p); };
      const LikelihoodBody<T> likelihood{backward ? nullptr : b.in<T>(0),
                                         b.inputs[1],
                                         weighted ? b.in<T>(2) : nullptr,
                                         at(parts),
                                         at(weights),
                                         count,
                                         classes,
                                         places,
                                         ignored,
                                         wide,
                                         ignores};
      std::vector<Launches> all{launches_of(likelihood, blocks_for(count, LikelihoodBody<T>::threads))};
      if (mean) all.push_back(sum.bind(weights, total, rest));
      if (backward) {
        const std::int64_t elements = count * classes;
        all.push_back(launches_of(LikelihoodBackwardBody<T>{b.in<T>(0), b.inputs[1], at(weights), mean ? at(total) : nullptr, b.out<T>(0),
                                                            elements, classes, places, wide, each},
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
  const std::optional<ReductionPlan> sum = plan_sum<float>(rows, request.options);
  const std::int64_t column = align_up(rows * static_cast<std::int64_t>(sizeof(float)));
  d.workspace = column + sum->workspace;
  visit_storage(scores.dtype, [&]<class T>() {
    d.make = launches([=, sum = *sum, l = *labels](const Buffers& b) -> Launches {
      float* const each = reinterpret_cast<float*>(b.workspace);
      const auto whole = sum.bind(b.workspace, b.outputs[0], b.workspace + column);
      if (l.dense)
        return in_turn(
            {launches_of(DenseCorrectBody<T>{b.in<T>(0), b.in<T>(1), each, rows, classes}, blocks_for(rows, DenseCorrectBody<T>::threads)),
             whole});
      return in_turn({launches_of(CorrectBody<T>{b.in<T>(0), b.inputs[1], each, classes, l.wide}, rows), whole});
    });
  });
  return {d};
}

}  // namespace tandem::cuda
