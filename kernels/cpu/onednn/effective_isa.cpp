// What the library uses of the CPU's instruction sets, by the names that ONEDNN_MAX_CPU_ISA takes.
#include "kernels/cpu/features.h"
#include "kernels/cpu/onednn/primitive.h"
#include "kernels/cpu/peak.h"

namespace tandem {

unsigned onednn::library_isa() {
  static const unsigned bits = [] {
    if (onednn_asks_too_little(cpu_features())) dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
    return static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  }();
  return bits;
}

std::string_view onednn_isa() {
  using dnnl::cpu_isa;
  struct Row {
    cpu_isa isa;
    std::string_view name;
  };
  static constexpr Row rows[] = {
#if DNNL_VERSION_MAJOR >= 3
      {cpu_isa::avx512_core_amx_fp16, "AVX512_CORE_AMX_FP16"},
#endif
      {cpu_isa::avx512_core_amx, "AVX512_CORE_AMX"},
#if DNNL_VERSION_MAJOR >= 3
      {cpu_isa::avx512_core_fp16, "AVX512_CORE_FP16"},
#endif
      {cpu_isa::avx512_core_bf16, "AVX512_CORE_BF16"}, {cpu_isa::avx512_core_vnni, "AVX512_CORE_VNNI"}, {cpu_isa::avx512_core, "AVX512_CORE"},
      {cpu_isa::avx2, "AVX2"},                         {cpu_isa::avx, "AVX"},                           {cpu_isa::sse41, "SSE41"},
  };
  const unsigned effective = onednn::library_isa();
  for (const Row& row : rows)
    if (const auto bits = static_cast<unsigned>(row.isa); (effective & bits) == bits) return row.name;
  return "none";
}

}  // namespace tandem
