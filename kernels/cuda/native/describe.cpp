// Fills a description from a request, operands in the layouts that they have or in one that is given.
#include "kernels/cuda/native/describe.h"

#include <algorithm>

#include "graph/layout_tag.h"

namespace tandem::cuda {
namespace {

class LaunchKernel final : public Kernel {
 public:
  explicit LaunchKernel(Binder binder) : binder_(std::move(binder)) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    launches_ = binder_({{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, workspace});
  }
  void run(StreamHandle stream) override { launches_(stream.native); }

 private:
  Binder binder_;
  Launches launches_;
};

bool usable(const Layout& layout, int rank) {
  return layout.plain() && std::ssize(tag_of(layout).axes) == std::max(rank, 1);
}

void settle(Operand& operand, const Layout& layout) {
  if (!operand.present() || operand.layout.opaque() || usable(operand.layout, operand.shape.rank())) return;
  operand.layout = usable(layout, operand.shape.rank()) ? layout : Layout::row_major(operand.shape.rank());
}

}  // namespace

std::function<std::unique_ptr<Kernel>()> launches(Binder binder) {
  return [binder = std::move(binder)]() -> std::unique_ptr<Kernel> { return std::make_unique<LaunchKernel>(binder); };
}

KernelDescription description_of(const KernelRequest& request, std::string_view kernel, const Layout& layout) {
  KernelDescription d;
  d.kernel = std::string(kernel);
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  for (Operand& o : d.inputs) settle(o, layout);
  for (Operand& o : d.outputs) settle(o, layout);
  return d;
}

Layout layout_of(const KernelRequest& request, int rank) {
  for (const auto* operands : {&request.inputs, &request.outputs})
    for (const Operand& o : *operands)
      if (o.present() && o.shape.rank() == rank && usable(o.layout, rank)) return o.layout;
  return Layout::channels_last(rank);
}

KernelDescription row_major_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, Layout());
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (o.present()) o.layout = Layout::row_major(o.shape.rank());
  d.efficiency = 0.5;
  return d;
}

Launches in_turn(std::vector<Launches> all) {
  return [all = std::move(all)](void* stream) {
    for (const Launches& one : all) one(stream);
  };
}

bool has(const std::vector<Operand>& operands, std::size_t i) { return i < operands.size() && operands[i].present(); }

std::vector<std::int64_t> strides_of(const Shape& shape, const Layout& layout) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 0);
  for (const PhysicalDim& d : physical_dims(shape, layout)) strides[static_cast<std::size_t>(d.axis)] = d.stride;
  return strides;
}

bool fits_index(const Operand& operand) { return !operand.present() || operand.shape.elements() < (std::int64_t{1} << 31); }

bool fit_index(const KernelDescription& d) {
  return std::all_of(d.inputs.begin(), d.inputs.end(), fits_index) && std::all_of(d.outputs.begin(), d.outputs.end(), fits_index);
}

std::int64_t blocks_for(std::int64_t items, std::int64_t per_block) {
  constexpr std::int64_t most = 1 << 14;  // many times what any device runs at once
  return std::min(ceil_div(items, per_block), most);
}

bool is_storage_float(DType dtype) { return is_float(dtype); }

}  // namespace tandem::cuda
