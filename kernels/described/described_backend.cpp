#include "kernels/described/described_backend.h"

#include <algorithm>
#include <cmath>

#include "base/module.h"

namespace tandem {
namespace {

// The CUDA context, cuDNN, cuBLAS and NCCL take memory of their own.
constexpr double reserved_bytes = 2.0 * (1 << 30);
constexpr std::int64_t buffer_alignment = 256;  // bytes, as cudaMalloc promises
constexpr double launch_seconds = 3e-6;

enum class Work { other, product, convolution, attention };

Work work_of(std::string_view op) {
  if (op.starts_with("Attention")) return Work::attention;
  if (op.starts_with("Conv")) return Work::convolution;
  if (op.starts_with("InnerProduct") || op.starts_with("MatMul") || op == "Gemm" || op == "ProductFp8" || op.starts_with("Recurrent"))
    return Work::product;
  return Work::other;
}

// The format that tensor cores take the operands of a product in.
Precision format_of(DType dtype, bool tf32) {
  if (size_of(dtype) == 1) return Precision::fp8;
  if (dtype == DType::float16) return Precision::fp16;
  if (dtype == DType::bfloat16) return Precision::bf16;
  return tf32 ? Precision::tf32 : Precision::fp32;
}

double elements(const std::vector<Operand>& operands, std::size_t i) {
  return i < operands.size() && operands[i].present() ? static_cast<double>(std::max<std::int64_t>(1, operands[i].shape.elements())) : 1;
}

// How many of the multiprocessors' turns have work: a product is cut into tiles of 128 by 128 results, long sums into parts of 1,024.
double filled(const KernelRequest& request, int multiprocessors) {
  if (multiprocessors <= 0 || request.inputs.size() < 2) return 1;
  const double results = elements(request.outputs, 0);
  const double sums = std::sqrt(elements(request.inputs, 0) * elements(request.inputs, 1) / results);
  const double tiles = std::max(1.0, results / (128 * 128)) * std::max(1.0, sums / 1024);
  const double turns = tiles / multiprocessors;
  return turns / std::ceil(turns);
}

}  // namespace

std::string DescribedBackend::unusable() const {
  return concat(name(), " stands for a device that is described, ", kind_.product, ": plans are made for it, nothing runs on it");
}

std::string DescribedBackend::declines(Precision precision) const {
  if (kind_.flops.contains(precision)) return {};
  std::string has;
  for (const auto& [p, peak] : kind_.flops) has += concat(has.empty() ? "" : ", ", p);
  return concat(kind_.product, " has no products in ", precision, ": it has ", has);
}

std::string DescribedBackend::assumed() const {
  return concat("devices ", name(), " are described, not here (", kind_.product,
                "): times follow from bytes, arithmetic and the shares of the peaks that such devices reach, kernels named assumed.* and ",
                "their libraries' workspaces were not asked for");
}

DeviceModel DescribedBackend::model(int, int) const {
  DeviceModel m;
  m.name = kind_.product;
  m.memory = static_cast<std::int64_t>(std::max(kind_.memory / 2, kind_.memory - reserved_bytes));
  m.flops = kind_.flops.at(Precision::fp32);
  m.bandwidth = kind_.bandwidth * kind_.copies;
  m.launch_seconds = launch_seconds;
  m.links = kind_.links;
  m.link_bandwidth = kind_.links.levels.empty() ? kind_.links.host_bandwidth : kind_.links.levels[0].bandwidth;
  m.multiprocessors = kind_.multiprocessors;
  m.alignment = buffer_alignment;
  return m;
}

// Of the float32 peak, as an estimate takes it.
double DescribedBackend::efficiency(const KernelRequest& request, const KernelDescription& described) const {
  const Work work = work_of(request.op);
  if (work == Work::other) return described.efficiency;
  DType dtype = DType::float32;
  for (const Operand& o : request.inputs)
    if (o.present()) {
      dtype = o.dtype;
      break;
    }
  const auto peak = kind_.flops.find(format_of(dtype, request.options.tf32));
  const double plain = kind_.flops.at(Precision::fp32);
  const bool by_tensor_cores = peak != kind_.flops.end() && peak->first != Precision::fp32;
  const double share = work == Work::attention    ? kind_.attention
                       : !by_tensor_cores           ? kind_.plain
                       : work == Work::convolution ? kind_.convolutions
                                                    : kind_.products;
  const double rate = by_tensor_cores ? peak->second / plain : 1;
  return std::max(1e-3, rate * share * (work == Work::attention ? 1 : filled(request, kind_.multiprocessors)));
}

std::vector<KernelDescription> DescribedBackend::describe(const KernelRequest& request) const {
  std::vector<KernelDescription> all = kernels_.describe(request);
  for (KernelDescription& d : all) {
    d.efficiency = efficiency(request, d);
    d.make = [why = unusable()]() -> std::unique_ptr<Kernel> { fail(ExitCode::device, why); };
  }
  return all;
}

Timing DescribedBackend::measure(const KernelDescription&, const KernelOptions&) const {
  fail(ExitCode::device, unusable(), ", so that no kernel can be timed");
}

std::unique_ptr<Device> DescribedBackend::open(int, const KernelOptions&) const { fail(ExitCode::device, unusable()); }

const DescribedKernels* open_described_kernels(std::string& reason) {
  const auto entry = reinterpret_cast<const DescribedKernels* (*)()>(find_in_module("described", "tandem_described_kernels", reason));
  return entry ? entry() : nullptr;
}

}  // namespace tandem
