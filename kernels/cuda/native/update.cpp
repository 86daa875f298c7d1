// Optimizer updates of many tensors, in as few launches as their tables need.
#include <algorithm>

#include "kernels/cuda/bodies/update.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

struct UpdateRow {
  std::string_view op, kernel;
  Optimizer optimizer;
  int states;          // with momentum
  bool momentum_adds;  // without it: one state less
};
constexpr UpdateRow update_rows[] = {
    {"SgdUpdate", "native.sgd", Optimizer::sgd, 1, true},
    {"AdamUpdate", "native.adam", Optimizer::adam, 2, false},
    {"RmspropUpdate", "native.rmsprop", Optimizer::rmsprop, 2, true},
};

UpdateNumbers numbers_of(const Attributes& a, Optimizer optimizer) {
  const auto real = [&](std::string_view name) { return static_cast<double>(a.real(name, 0.0F)); };
  return {.optimizer = optimizer,
          .nesterov = a.integer("nesterov", 0) != 0,
          .decoupled = a.integer("decoupled", 0) != 0,
          .momentum = real("momentum"),
          .weight_decay = real("weight_decay"),
          .beta1 = real("beta1"),
          .beta2 = real("beta2"),
          .rho = real("rho"),
          .epsilon = real("epsilon")};
}

struct UpdatedTensor {
  std::int64_t elements;
  bool narrow_gradient;
};

// As many launches as the tables of tensors need.
template <class T>
Launches update_launches(const Buffers& b, const UpdateNumbers& numbers, const std::vector<UpdatedTensor>& tensors, std::size_t states, bool copies, Narrow narrow) {
  struct Launch {
    UpdateBody<T> body;
    std::int64_t blocks;
  };
  std::vector<Launch> all;
  const std::size_t in = states + 2 + copies, out = in - 1;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (all.empty() || all.back().body.count == tensors_a_launch) {
      all.push_back({});
      all.back().body.n = numbers;
      all.back().body.narrow = narrow;
      all.back().body.scalars = b.in<StepScalars>(0);
    }
    auto& [body, blocks] = all.back();
    const auto read = [&](std::size_t k) { return k < 2 + states ? b.in<T>(1 + t * in + k) : nullptr; };
    const auto write = [&](std::size_t k) { return k < 1 + states ? b.out<T>(t * out + k) : nullptr; };
    body.first_block[body.count] = static_cast<std::int32_t>(blocks);
    body.narrow_gradients |= std::uint64_t{tensors[t].narrow_gradient} << body.count;
    body.tensors[body.count++] = {read(0), b.inputs[2 + t * in], read(2), read(3), write(0), write(1), write(2), copies ? b.outputs[t * out + out - 1] : nullptr, tensors[t].elements};
    blocks += ceil_div(tensors[t].elements, update_piece);
  }
  return [all = std::move(all)](void* stream) {
    for (const Launch& one : all) launch(one.body, one.blocks, stream);
  };
}

}  // namespace

Descriptions describe_update(const KernelRequest& request, Libraries*) {
  const auto row = std::find_if(std::begin(update_rows), std::end(update_rows), [&](const UpdateRow& r) { return r.op == request.op; });
  const auto tensors = static_cast<std::size_t>(request.attributes->integer("tensors"));
  if (row == std::end(update_rows) || tensors == 0 || request.inputs[0].dtype != DType::float32) return {};
  const bool fewer = row->momentum_adds && request.attributes->real("momentum", 0.0F) == 0;
  const auto states = static_cast<std::size_t>(fewer ? row->states - 1 : row->states);
  const bool copied = request.attributes->integer("copies", 0) != 0;
  const std::size_t in = states + 2 + copied, out = in - 1;
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
      const bool copy = copied && k + 1 == in;
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
  visit_float(dtype, [&]<class T>() {
    d.make = launches([=, numbers = numbers_of(*request.attributes, row->optimizer)](const Buffers& b) { return update_launches<T>(b, numbers, updated, states, copied, narrow == DType::float16 ? Narrow::float16 : Narrow::bfloat16); });
  });
  return {d};
}

}  // namespace tandem::cuda
