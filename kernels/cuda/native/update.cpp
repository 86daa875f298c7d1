// Optimizer updates of many tensors, in as few launches as their tables need.
#include "graph/updates.h"

#include <algorithm>

#include "kernels/cuda/bodies/update.h"
#include "kernels/cuda/native/tensor_tables.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

UpdateRule rule_of(const UpdateNumbers& n) {
  return {.kind = n.kind,
          .nesterov = n.nesterov,
          .decoupled = n.decoupled,
          .rate = n.rate,
          .from = n.from,
          .weight_decay = n.weight_decay,
          .momentum = n.momentum,
          .dampening = n.dampening,
          .beta1 = n.beta1,
          .beta2 = n.beta2,
          .epsilon = n.epsilon,
          .rate_decay = n.rate_decay,
          .trust = n.trust,
          .bound = n.clip_value};
}

struct UpdatedTensor {
  std::int64_t elements;
  bool narrow_gradient;
};

// The norms that the rates or gradients of these tensors go by, in turn.
std::vector<Measured> measured(const UpdateNumbers& n) {
  std::vector<Measured> list;
  if (n.clip_norm > 0) list.push_back(Measured::gradient);
  if (n.kind == UpdateKind::lamb) list.push_back(Measured::lamb);
  if (n.kind == UpdateKind::lars) list.push_back(Measured::lars);
  return list;
}

constexpr std::int64_t pair_of_sums = 2 * sizeof(double);

std::int64_t workspace_of(const UpdateNumbers& numbers, const std::vector<UpdatedTensor>& tensors) {
  if (measured(numbers).empty()) return 0;
  std::int64_t pairs = 0;
  for (const UpdatedTensor& t : tensors) pairs += 1 + pieces_of<UpdateTable<float>>(t.elements);
  return pairs * pair_of_sums;
}

template <class T>
UpdateTensor<T> tensor_at(const Buffers& b, const UpdateNumbers& n, const UpdatedTensor& tensor, std::size_t t) {
  const std::size_t in = static_cast<std::size_t>(n.states) + 2 + n.copies, out = in - 1;
  UpdateTensor<T> a{};
  a.g = b.inputs[2 + t * in];
  a.w = b.in<T>(1 + t * in);
  a.new_w = b.out<T>(t * out);
  a.elements = tensor.elements;
  a.narrow_gradient = tensor.narrow_gradient;
  a.copy = n.copies ? b.outputs[t * out + out - 1] : nullptr;
  a.packs = in_packs({a.g, a.w, a.new_w, a.copy});
  std::size_t k = 1;
  const auto state = [&](const T*& from, T*& to) {
    from = b.in<T>(2 + t * in + k);
    to = b.out<T>(t * out + k);
    a.packs = a.packs && in_packs({from, to});
    ++k;
  };
  for (const UpdateState& s : n.own) state(a.state[s.slot], a.new_state[s.slot]);
  if (n.average) state(a.average, a.new_average);
  return a;
}

// As many launches as the tables of tensors need.
template <class T>
Launches update_launches(const Buffers& b, const UpdateNumbers& numbers, const std::vector<UpdatedTensor>& tensors, Narrow narrow) {
  std::vector<UpdateTensor<T>> list;
  for (std::size_t t = 0; t < tensors.size(); ++t) list.push_back(tensor_at<T>(b, numbers, tensors[t], t));
  auto all = tables_of<&UpdateBody<T>::table>(std::span<const UpdateTensor<T>>(list), [&] {
    UpdateBody<T> body{};
    body.table.rule = rule_of(numbers);
    body.table.narrow = narrow;
    body.table.scalars = b.in<StepScalars>(0);
    return body;
  });
  // Of each table: the tensors' factors, then the sums of its blocks.
  return [all = std::move(all), numbers, workspace = reinterpret_cast<double*>(b.workspace)](void* stream) {
    double* factors = workspace;
    for (const auto& [update, blocks] : all) {
      UpdateBody<T> body = update;
      UpdateTable<T>& table = body.table;
      double* const parts = factors + 2 * table.count;
      for (const Measured what : measured(numbers)) {
        launch(MeasureBody<T>{table, what, parts}, blocks, stream);
        TrustBody<T> trust{.rule = table.rule,
                           .what = what,
                           .clip_norm = numbers.clip_norm,
                           .count = table.count,
                           .first_block = {},
                           .part = parts,
                           .factors = factors};
        std::copy_n(table.first_block, table.count, trust.first_block);
        trust.first_block[table.count] = static_cast<std::int32_t>(blocks);
        launch(trust, table.count, stream);
        table.factors = factors;
      }
      launch(body, blocks, stream);
      factors = parts + 2 * blocks;
    }
  };
}

Narrow narrow_of(DType type) { return type == DType::float16 ? Narrow::float16 : Narrow::bfloat16; }

}  // namespace

Descriptions describe_update(const KernelRequest& request, Libraries*) {
  const UpdateRow* const row = find_update(request.op);
  const UpdateOperands operands(*request.attributes, request.inputs.size());
  if (!row || operands.tensors == 0 || request.inputs[0].dtype != DType::float32) return {};
  const UpdateNumbers numbers = update_numbers(row->kind, *request.attributes);
  const std::size_t in = static_cast<std::size_t>(numbers.states) + 2 + numbers.copies, out = in - 1;
  if (request.inputs.size() != 1 + operands.tensors * in || request.outputs.size() != operands.tensors * out) return {};
  KernelDescription d;
  d.kernel = std::string(row->kernel);
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  d.inputs[0].layout = Layout::row_major(1);
  d.efficiency = 0.8;
  const DType dtype = request.inputs[1].dtype;
  DType narrow = DType::undefined;  // of copies and gradients in 16 bits: one for all
  const auto narrows = [&](const Operand& o) {
    if (narrow == DType::undefined) narrow = o.dtype;
    return is_16_bit(o.dtype) && o.dtype == narrow;
  };
  std::vector<UpdatedTensor> updated;
  for (std::size_t t = 0; t < operands.tensors; ++t) {
    // All of a tensor's operands lie as the parameter does, or, where that is still open, as its gradient.
    const Operand &w = request.inputs[operands.at(t)], &g = request.inputs[operands.at(t, UpdateOperands::gradient)];
    const Layout layout = !w.layout.any() ? w.layout : !g.layout.any() ? g.layout : Layout::row_major(w.shape.rank());
    for (std::size_t k = 0; k < in; ++k) {
      Operand& operand = d.inputs[operands.at(t, k)];
      const bool copy = numbers.copies && k + 1 == in;
      if (copy || (k == 1 && operand.dtype != dtype) ? !narrows(operand) : operand.dtype != dtype) return {};
      operand.layout = layout;
      if (k == 1) continue;
      const std::size_t o = t * out + (k == 0 ? 0 : k - 1);
      d.outputs[o].layout = layout;
      d.in_place.emplace_back(static_cast<int>(o), static_cast<int>(operands.at(t, k)));
    }
    updated.push_back({physical_elements(w.shape, layout), g.dtype != dtype});
  }
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  d.workspace = workspace_of(numbers, updated);
  visit_float(dtype, [&]<class T>() {
    d.make = launches([=](const Buffers& b) { return update_launches<T>(b, numbers, updated, narrow_of(narrow)); });
  });
  return {d};
}

// In whatever layouts the gradients lie, in float32 or one type of 16 bits.
Descriptions describe_clip_scalars(const KernelRequest& request, Libraries*) {
  const UpdateNumbers numbers = update_numbers(UpdateKind::sgd, *request.attributes);
  KernelDescription d;
  d.kernel = "native.clip_scalars";
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  d.inputs[0].layout = d.outputs[0].layout = Layout::row_major(1);
  d.efficiency = 0.8;
  DType narrow = DType::undefined;
  std::vector<UpdatedTensor> tensors;
  for (std::size_t k = 1; k < d.inputs.size(); ++k) {
    Operand& g = d.inputs[k];
    if (is_16_bit(g.dtype) && narrow == DType::undefined) narrow = g.dtype;
    if ((g.dtype != DType::float32 && g.dtype != narrow) || g.layout.opaque()) return {};
    if (g.layout.any()) g.layout = Layout::row_major(g.shape.rank());
    tensors.push_back({physical_elements(g.shape, g.layout), g.dtype != DType::float32});
    d.workspace += pieces_of<decltype(SquaresBody::table)>(tensors.back().elements) * static_cast<std::int64_t>(sizeof(double));
  }
  d.make = launches([=, limit = numbers.clip_norm](const Buffers& b) -> Launches {
    double* const part = reinterpret_cast<double*>(b.workspace);
    std::vector<SquaresBody::Tensor> list;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const void* const g = b.inputs[1 + t];
      list.push_back({g, tensors[t].elements, tensors[t].narrow_gradient, in_packs({g})});
    }
    auto all = tables_of<&SquaresBody::table>(std::span<const SquaresBody::Tensor>(list), [&] {
      return SquaresBody{narrow_of(narrow), {}, nullptr};
    });
    std::int64_t parts = 0;
    for (auto& [body, blocks] : all) {
      body.part = part + parts;
      parts += blocks;
    }
    const ClipScalarsBody last{b.in<StepScalars>(0), b.out<StepScalars>(0), part, parts, limit};
    return [all = std::move(all), last](void* stream) {
      for (const auto& one : all) one.start(stream);
      launch(last, 1, stream);
    };
  });
  return {d};
}

}  // namespace tandem::cuda
