#include "kernels/cuda/cublas/activation.h"

#include "kernels/cuda/fused/elementwise.h"

namespace tandem::cuda {

Binder activation_binder(const KernelDescription& product, const KernelRequest& request, Libraries& libraries) {
  const bool backward = request.op != "InnerProduct", kept = has(product.outputs, 1);
  const std::string op = request.attributes->text("activation", "") + (backward ? "Backward" : "");
  const Attributes none;
  KernelRequest elementwise{.op = op, .attributes = &none, .inputs = {product.outputs[0]}, .outputs = {product.outputs[0]}};
  if (backward) elementwise.inputs.push_back(product.inputs[2]);
  const std::vector<KernelDescription> found = describe_fused_elementwise(elementwise, &libraries);
  if (found.empty()) fail(product.kernel, ": there is no ", op, " of ", to_string(product.outputs[0]));
  return [make = found[0].make, backward, kept](const Buffers& b) -> Launches {
    std::vector<std::byte*> in{b.outputs[kept ? 1 : 0]}, out{b.outputs[0]};
    if (backward) in.push_back(b.inputs[2]);
    const std::shared_ptr<Kernel> kernel = make();
    kernel->bind(in, out, nullptr);
    return [kernel](void* stream) { kernel->run({stream}); };
  };
}

}  // namespace tandem::cuda
