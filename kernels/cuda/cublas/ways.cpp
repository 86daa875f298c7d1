// The ways that cuBLASLt offers for a product, each as the kernel's name that finds it again.
#include "kernels/cuda/cublas/ways.h"

#include "base/error.h"

namespace tandem::cuda {
namespace {

constexpr int timed_ways = 8;
constexpr std::string_view apart_mark = ".apart", heuristic_mark = ".heuristic";

Gemm without_epilogue(Gemm gemm) {
  gemm.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  return gemm;
}

std::optional<GemmWay> named(std::string_view kernel, const std::string& prefix) {
  GemmWay way{.kernel = std::string(kernel), .apart = false, .engine = {}};
  if (!kernel.starts_with(prefix)) return std::nullopt;
  kernel.remove_prefix(prefix.size());
  if (kernel == heuristic_mark) return way;
  if (kernel.starts_with(apart_mark)) {
    kernel.remove_prefix(apart_mark.size());
    way.apart = true;
  }
  if (!kernel.starts_with('.')) return std::nullopt;
  way.engine = parse_engine(kernel.substr(1));
  return way.engine ? std::optional(way) : std::nullopt;
}

}  // namespace

std::vector<GemmWay> ways_to_run(const Gemm& gemm, const std::string& prefix, const KernelRequest& request, cublasLtHandle_t handle) {
  std::vector<GemmWay> ways;
  if (!request.kernel.empty()) {
    if (const auto way = named(request.kernel, prefix)) ways.push_back(*way);
    return ways;
  }
  const auto add = [&](const Gemm& g, bool apart) {
    for (const Engine& e : GemmPlan(g, handle).engines(request.timed ? timed_ways : 1))
      ways.push_back({concat(prefix, apart ? apart_mark : "", '.', to_string(e)), apart, e});
  };
  if (handle) add(gemm, false);
  if (handle && ways.empty() && gemm.epilogue != CUBLASLT_EPILOGUE_DEFAULT) add(without_epilogue(gemm), true);
  if (ways.empty()) ways.push_back({concat(prefix, heuristic_mark), false, std::nullopt});
  return ways;
}

PreparedGemm prepare(const Gemm& gemm, const GemmWay& way, cublasLtHandle_t handle) try {
  auto plan = std::make_unique<GemmPlan>(way.apart ? without_epilogue(gemm) : gemm, handle);
  if (way.engine) {
    plan->choose(*way.engine);
    return {std::move(plan), way.apart};
  }
  if (plan->choose_best()) return {std::move(plan), false};
  plan = std::make_unique<GemmPlan>(without_epilogue(gemm), handle);
  if (gemm.epilogue == CUBLASLT_EPILOGUE_DEFAULT || !plan->choose_best())
    fail(ExitCode::device, "cuBLASLt has no algorithm for a product ", gemm.m, 'x', gemm.n, 'x', gemm.k, " of ", gemm.dtype);
  return {std::move(plan), true};
} catch (const Error& e) {
  fail(e.code(), way.kernel, ": ", e.what());
}

}  // namespace tandem::cuda
