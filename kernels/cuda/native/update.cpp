// Optimizer updates of many tensors, in as few launches as their tables need.
#include "graph/updates.h"

#include <algorithm>

#include "kernels/cuda/bodies/update.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

UpdateRule rule_of(const UpdateNumbers& n) {
  return {.kind = n.kind, .nesterov = n.nesterov, .decoupled = n.decoupled, .always = n.always, .rate = n.rate, .from = n.from, .weight_decay = n.weight_decay,
          .momentum = n.momentum, .dampening = n.dampening, .beta1 = n.beta1, .beta2 = n.beta2, .epsilon = n.epsilon,
          .rate_decay = n.rate_decay, .trust = n.trust, .bound = n.clip_value};
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
  for (const UpdatedTensor& t : tensors) pairs += 1 + ceil_div(t.elements, update_piece);
  return pairs * pair_of_sums;
}

// As many launches as the tables of tensors need.
template <class T>
Launches update_launches(const Buffers& b, const UpdateNumbers& numbers, const std::vector<UpdatedTensor>& tensors, Narrow narrow) {
  struct Table {
    UpdateTable<T> body;
    std::int64_t blocks;
    double *factors, *parts;
  };
  std::vector<Table> all;
  double* workspace = reinterpret_cast<double*>(b.workspace);
  const bool measures = !measured(numbers).empty();
  const std::size_t in = static_cast<std::size_t>(numbers.states) + 2 + numbers.copies, out = in - 1;
  const auto end_table = [&] {
    if (all.empty() || !measures) return;
    all.back().factors = workspace;
    all.back().parts = workspace + 2 * all.back().body.count;
    workspace = all.back().parts + 2 * all.back().blocks;
  };
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (all.empty() || all.back().body.count == tensors_a_launch) {
      end_table();
      all.push_back({});
      all.back().body.rule = rule_of(numbers);
      all.back().body.narrow = narrow;
      all.back().body.scalars = b.in<StepScalars>(0);
    }
    auto& body = all.back().body;
    std::int64_t& blocks = all.back().blocks;
    body.first_block[body.count] = static_cast<std::int32_t>(blocks);
    body.narrow_gradients |= std::uint64_t{tensors[t].narrow_gradient} << body.count;
    UpdateTensor<T>& a = body.tensors[body.count++];
    a.g = b.inputs[2 + t * in];
    a.w = b.in<T>(1 + t * in);
    a.new_w = b.out<T>(t * out);
    std::size_t k = 1;
    const auto state = [&](const T*& from, T*& to) {
      from = b.in<T>(2 + t * in + k);
      to = b.out<T>(t * out + k);
      ++k;
    };
    for (const UpdateState& s : numbers.own) state(a.state[s.slot], a.new_state[s.slot]);
    if (numbers.accumulate) state(a.sum, a.new_sum);
    if (numbers.average) state(a.average, a.new_average);
    a.copy = numbers.copies ? b.outputs[t * out + out - 1] : nullptr;
    a.elements = tensors[t].elements;
    blocks += ceil_div(a.elements, update_piece);
  }
  end_table();
  return [all = std::move(all), numbers](void* stream) {
    for (const Table& table : all) {
      UpdateTable<T> body = table.body;
      if (numbers.accumulate) launch(AccumulateBody<T>{body}, table.blocks, stream);
      for (const Measured what : measured(numbers)) {
        launch(MeasureBody<T>{body, what, table.parts}, table.blocks, stream);
        TrustBody<T> trust{.rule = body.rule, .what = what, .clip_norm = numbers.clip_norm, .count = body.count, .first_block = {}, .part = table.parts, .factors = table.factors};
        std::copy_n(body.first_block, body.count, trust.first_block);
        trust.first_block[body.count] = static_cast<std::int32_t>(table.blocks);
        launch(trust, body.count, stream);
        body.factors = table.factors;
      }
      launch(UpdateBody<T>{body}, table.blocks, stream);
    }
  };
}

Narrow narrow_of(DType type) { return type == DType::float16 ? Narrow::float16 : Narrow::bfloat16; }

}  // namespace

Descriptions describe_update(const KernelRequest& request, Libraries*) {
  const UpdateRow* const row = find_update(request.op);
  const auto tensors = static_cast<std::size_t>(request.attributes->integer("tensors"));
  if (!row || tensors == 0 || request.inputs[0].dtype != DType::float32) return {};
  const UpdateNumbers numbers = update_numbers(row->kind, *request.attributes);
  const std::size_t in = static_cast<std::size_t>(numbers.states) + 2 + numbers.copies, out = in - 1;
  if (request.inputs.size() != 1 + tensors * in || request.outputs.size() != tensors * out) return {};
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
  for (std::size_t t = 0; t < tensors; ++t) {
    // All of a tensor's operands lie as the parameter does, or, where that is still open, as its gradient.
    const Operand &w = request.inputs[1 + t * in], &g = request.inputs[2 + t * in];
    const Layout layout = !w.layout.any() ? w.layout : !g.layout.any() ? g.layout : Layout::row_major(w.shape.rank());
    for (std::size_t k = 0; k < in; ++k) {
      Operand& operand = d.inputs[1 + t * in + k];
      const bool copy = numbers.copies && k + 1 == in;
      if (copy || (k == 1 && operand.dtype != dtype) ? !narrows(operand) : operand.dtype != dtype) return {};
      operand.layout = layout;
      if (k == 1) continue;
      const std::size_t o = t * out + (k == 0 ? 0 : k - 1);
      d.outputs[o].layout = layout;
      d.in_place.emplace_back(static_cast<int>(o), static_cast<int>(1 + t * in + k));
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

// In whatever layouts the gradients lie, in float32 or one type of 16 bits; sums of gradients in float32.
Descriptions describe_clip_scalars(const KernelRequest& request, Libraries*) {
  const UpdateNumbers numbers = update_numbers(UpdateKind::sgd, *request.attributes);
  const std::size_t stride = numbers.accumulate ? 2 : 1;
  KernelDescription d;
  d.kernel = "native.clip_scalars";
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  d.inputs[0].layout = d.outputs[0].layout = Layout::row_major(1);
  d.efficiency = 0.8;
  DType narrow = DType::undefined;
  std::vector<UpdatedTensor> tensors;
  for (std::size_t k = 1; k < d.inputs.size(); k += stride) {
    Operand& g = d.inputs[k];
    if (is_16_bit(g.dtype) && narrow == DType::undefined) narrow = g.dtype;
    if ((g.dtype != DType::float32 && g.dtype != narrow) || g.layout.opaque()) return {};
    if (g.layout.any() && stride == 2) g.layout = d.inputs[k + 1].layout;
    if (g.layout.any()) g.layout = Layout::row_major(g.shape.rank());
    if (stride == 2) {
      if (d.inputs[k + 1].dtype != DType::float32) return {};
      d.inputs[k + 1].layout = g.layout;
    }
    tensors.push_back({physical_elements(g.shape, g.layout), g.dtype != DType::float32});
    d.workspace += ceil_div(tensors.back().elements, update_piece) * static_cast<std::int64_t>(sizeof(double));
  }
  d.make = launches([=, limit = numbers.clip_norm](const Buffers& b) -> Launches {
    struct Launch {
      SquaresBody body;
      std::int64_t blocks;
    };
    std::vector<Launch> all;
    double* part = reinterpret_cast<double*>(b.workspace);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (all.empty() || all.back().body.count == tensors_a_launch) {
        if (!all.empty()) part += all.back().blocks;
        all.push_back({});
        all.back().body.scalars = b.in<StepScalars>(0);
        all.back().body.type = narrow_of(narrow);
        all.back().body.part = part;
      }
      auto& [body, blocks] = all.back();
      body.first_block[body.count] = static_cast<std::int32_t>(blocks);
      body.narrow |= std::uint64_t{tensors[t].narrow_gradient} << body.count;
      body.tensors[body.count++] = {b.inputs[1 + t * stride], stride == 2 ? b.in<float>(2 + t * stride) : nullptr, tensors[t].elements};
      blocks += ceil_div(tensors[t].elements, update_piece);
    }
    const auto* const first = reinterpret_cast<const double*>(b.workspace);
    const ClipScalarsBody last{b.in<StepScalars>(0), b.out<StepScalars>(0), first, part + all.back().blocks - first, limit};
    return [all = std::move(all), last](void* stream) {
      for (const Launch& one : all) launch(one.body, one.blocks, stream);
      launch(last, 1, stream);
    };
  });
  return {d};
}

}  // namespace tandem::cuda
