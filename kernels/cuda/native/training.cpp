// Dropout, optimizer updates and running statistics.
#include <algorithm>

#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/bodies/update.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/native.h"
#include "kernels/cuda/native/nest.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

// The mask's layout names x's, so that the gradient is asked for in the same one.
constexpr std::string_view dropout_family = "dropout.";

double kept_scale(double ratio) { return ratio < 1 ? 1 / (1 - ratio) : 0.0; }

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
      all.back().body.scalars = b.in<float>(0);
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

Descriptions describe_dropout(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.dropout", layout_of(request, request.inputs[0].shape.rank()));
  const Operand& x = d.inputs[0];
  if (!is_storage_float(x.dtype) || !fit_index(d)) return {};
  const std::int64_t elements = x.shape.elements();
  d.outputs[0].layout = x.layout;
  d.outputs[1] = {DType::uint8, Shape{elements}, Layout::opaque(concat(dropout_family, x.layout))};
  d.in_place = {{0, 0}};
  d.efficiency = 0.6;
  std::vector<LoopDim> dims;
  const std::vector<std::int64_t> memory = strides_of(x), number = strides_of(x.shape, Layout::row_major(x.shape.rank()));
  for (std::size_t axis = 0; axis < memory.size(); ++axis) dims.push_back({x.shape.dims[axis], {memory[axis], number[axis]}});
  const auto nest = nest_of<1>(ordered(std::move(dims)), {1});
  if (!nest) return {};
  const double ratio = static_cast<double>(request.attributes->real("ratio", 0.5F));
  visit_storage(x.dtype, [&]<class T>() {
    DropoutBody<T> body{};
    body.elements = elements;
    body.row = x.shape.rank() == 0 || x.shape[0] == 0 ? 1 : elements / x.shape[0];
    // A ratio of 1 drops all: no word reaches 2³², so the scale does it.
    body.threshold = static_cast<std::uint32_t>(std::min(ratio * 0x1p32, 0xffffffffp0));
    body.layer = static_cast<std::uint32_t>(request.attributes->integer("layer", 0));
    body.scale = kept_scale(ratio);
    body.row_major = x.layout.is_row_major();
    body.numbers = *nest;
    d.make = launches([body](const Buffers& b) -> Launches {
      DropoutBody<T> bound = body;
      bound.x = b.in<T>(0);
      bound.random = b.in<std::int64_t>(1);
      bound.y = b.out<T>(0);
      bound.mask = b.out<std::uint8_t>(1);
      return [bound, blocks = blocks_for(bound.elements, DropoutBody<T>::threads)](void* stream) { launch(bound, blocks, stream); };
    });
  });
  return {d};
}

Descriptions describe_dropout_backward(const KernelRequest& request, Libraries*) {
  const Operand& mask = request.inputs[1];
  const std::string prefix = Layout::opaque(dropout_family).tag();
  if (!mask.layout.tag().starts_with(prefix)) return {};
  const Layout layout(mask.layout.tag().substr(prefix.size()));
  KernelDescription d = description_of(request, "native.dropout_backward", layout);
  if (!is_storage_float(d.inputs[0].dtype) || !layout.plain()) return {};
  d.inputs[0].layout = d.outputs[0].layout = layout;
  d.in_place = {{0, 0}};
  d.efficiency = 0.7;
  const double scale = kept_scale(static_cast<double>(request.attributes->real("ratio", 0.5F)));
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    d.make = launches([scale, elements = d.inputs[0].shape.elements()](const Buffers& b) -> Launches {
      const DropoutBackwardBody<T> body{b.in<T>(0), b.in<std::uint8_t>(1), b.out<T>(0), elements, scale};
      return [body, blocks = blocks_for(elements, DropoutBackwardBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

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

Descriptions describe_running_statistics(const KernelRequest& request, Libraries*) {
  KernelDescription d;
  d.kernel = "native.running_statistics";
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  const Operand& running = request.inputs[0];
  if (running.dtype != DType::float32 && running.dtype != DType::float64) return {};
  const Layout layout = running.layout.any() ? Layout::row_major(running.shape.rank()) : running.layout;
  d.inputs[0].layout = d.inputs[1].layout = d.outputs[0].layout = layout;
  if (has(d.inputs, 2)) d.inputs[2].layout = Layout::row_major(1);
  d.in_place = {{0, 0}};
  visit_float(running.dtype, [&]<class T>() {
    d.make = launches([elements = physical_elements(running.shape, layout), momentum = static_cast<double>(request.attributes->real("momentum"))](const Buffers& b) -> Launches {
      const RunningBody<T> body{b.in<T>(0), b.in<T>(1), b.out<T>(0), elements, momentum, b.in<float>(2)};
      return [body, blocks = blocks_for(elements, RunningBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
