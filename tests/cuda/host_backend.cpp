#include "tests/cuda/host_backend.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/cuda/emulated.h"

namespace tandem::cuda {
namespace {

// A library's kernel: the same operator by the CPU backend, row-major.
class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(std::string op, Attributes attributes, const KernelDescription& d)
      : job_{std::move(op), std::move(attributes), {}}, in_(d.inputs), out_(d.outputs) {
    for (const Operand& o : out_) job_.outputs.push_back({o.dtype, o.shape, {}});
  }
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
  }
  void run(StreamHandle) override {
    std::vector<Held> given;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      Held& h = given.emplace_back(Held{in_[i], {}});
      if (!in_[i].present()) continue;
      h.bytes.assign(inputs_[i], inputs_[i] + in_[i].bytes());
      h = reordered(h, Layout::row_major(in_[i].shape.rank()));
    }
    const std::vector<Held> got = cuda::run(describe_native_cpu, job_, given);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!out_[i].present()) continue;
      const Held placed = reordered(got[i], out_[i].layout);
      std::copy(placed.bytes.begin(), placed.bytes.end(), outputs_[i]);
    }
  }

 private:
  Job job_;
  std::vector<Operand> in_, out_;
  std::vector<std::byte*> inputs_, outputs_;
};

void run_by_reference(KernelDescription& d, const KernelRequest& request) {
  d.make = [op = std::string(request.op), attributes = *request.attributes,
            copy = KernelDescription{.inputs = d.inputs, .outputs = d.outputs}] {
    return std::make_unique<ReferenceKernel>(op, attributes, copy);
  };
}

// What libraries keep between forward and backward, and what they compute in 16 bits, have no equal on the CPU: our own kernels are planned
// instead.
constexpr std::string_view without_equal[] = {"cudnn.attention", "cudnn.max_pool", "cudnn.batch_normalization", "cudnn.row_normalization"};

// Products have no kernels of our own: as cuBLASLt's are described, in the layouts that those want.
constexpr std::string_view products[] = {"InnerProduct", "InnerProductBackwardData", "InnerProductBackwardWeights", "MatMul", "ProductFp8"};

std::vector<KernelDescription> describe_product(const KernelRequest& request) {
  for (const Operand& o : request.inputs)
    if (is_16_bit(o.dtype) && request.op != "ProductFp8") return {};  // the CPU has none: between casts, the planner takes float32's
  KernelDescription d{.kernel = concat("reference.", request.op), .inputs = request.inputs, .outputs = request.outputs};
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (o.present()) o.layout = Layout::row_major(o.shape.rank());
  run_by_reference(d, request);
  return {d};
}

}  // namespace

const Backend* cuda_module(std::string& reason) {
#ifdef TANDEM_CUDA_MODULE
  std::filesystem::path file = TANDEM_CUDA_MODULE;
#else
  std::filesystem::path file;
#endif
  if (const char* elsewhere = std::getenv("TANDEM_CUDA_MODULE_PATH")) file = elsewhere;  // as a bundle has it
  if (file.empty()) {
    reason = "the CUDA backend was not built";
    return nullptr;
  }
  void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    reason = dlerror();
    return nullptr;
  }
  const auto entry = reinterpret_cast<const Backend* (*)()>(dlsym(module, "tandem_backend"));
  return entry();
}

HostCudaBackend::HostCudaBackend(bool with_module) {
  devices.queues = true;
  std::string reason;
  if (with_module) module_ = cuda_module(reason);
  if (with_module && !module_) fail(ExitCode::device, reason);
}

DeviceModel HostCudaBackend::model(int index, int devices_in_use) const {
  return module_ ? module_->model(index, devices_in_use)
                 : DeviceModel{
                       .name = "host", .memory = std::int64_t{1} << 30, .flops = 1e12, .bandwidth = 1e12, .threads = 1, .alignment = 256};
}

std::vector<KernelDescription> HostCudaBackend::describe(const KernelRequest& request) const {
  const std::vector<KernelDescription> own = std::find(std::begin(products), std::end(products), request.op) == std::end(products)
                                                 ? describe_emulated(request)
                                                 : describe_product(request);
  std::vector<KernelDescription> all = own;
  if (module_) {
    all.clear();
    for (KernelDescription& d : module_->describe(request)) {
      if (std::any_of(std::begin(without_equal), std::end(without_equal),
                      [&](std::string_view family) { return d.kernel.starts_with(family); }))
        continue;
      const auto same = std::find_if(own.begin(), own.end(), [&](const KernelDescription& o) { return o.kernel == d.kernel; });
      if (same != own.end())
        d.make = same->make;
      else
        run_by_reference(d, request);
      all.push_back(std::move(d));
    }
  }
  if (!request.kernel.empty()) std::erase_if(all, [&](const KernelDescription& d) { return d.kernel != request.kernel; });
  return all;
}

}  // namespace tandem::cuda
