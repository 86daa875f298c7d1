// Products of 8 bits: what cuBLASLt is told of them, over a stand-in that refuses what the library's documentation refuses.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/cuda/cublas/ways.h"
#include "tests/cuda/cublas/stand_in.h"

namespace tandem::cuda {
namespace {

using test::cublas::algorithm;
using test::cublas::library;

constexpr DType e4m3 = DType::float8e4m3fn, e5m2 = DType::float8e5m2;

struct Row {
  const char* what;
  Gemm gemm;
  bool taken;
};
Gemm product(DType a, DType b, std::int64_t m, std::int64_t n, std::int64_t k, bool fast = false) {
  return {.m = m, .n = n, .k = k, .transpose_a = true, .dtype = DType::bfloat16, .fp8 = GemmFp8{a, b, fast}};
}
Gemm with(Gemm g, void (*change)(Gemm&)) {
  change(g);
  return g;
}

class Fp8Ways : public testing::Test {
 protected:
  Fp8Ways() { library() = {.algorithms = {algorithm(66, 20, 1, 3), algorithm(21, 20)}}; }
  ~Fp8Ways() override { EXPECT_EQ(library().live, 0) << "descriptors were left over"; }
  static cublasLtHandle_t at_hand() { return reinterpret_cast<cublasLtHandle_t>(std::uintptr_t{64}); }
  static std::vector<GemmWay> ways(const Gemm& g) {
    return ways_to_run(g, "cublaslt.product_fp8", {"ProductFp8", nullptr, {}, {}, {}, {}, true}, at_hand());
  }
};

TEST_F(Fp8Ways, AreThoseOfTheLibrary) {
  const Row rows[] = {
      {"forward", product(e4m3, e4m3, 48, 7, 32, true), true},
      {"a gradient", product(e4m3, e5m2, 48, 7, 32), true},
      {"with a bias", with(product(e4m3, e4m3, 48, 7, 32), [](Gemm& g) { g.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS; }), true},
      {"two gradients", product(e5m2, e5m2, 48, 7, 32), false},
      {"an odd sum", product(e4m3, e5m2, 48, 7, 33), false},
      {"odd rows", product(e4m3, e4m3, 40, 7, 32), false},
      {"not along the sum", with(product(e4m3, e4m3, 48, 7, 32), [](Gemm& g) { g.transpose_a = false; }), false},
  };
  for (const Row& row : rows) {
    const std::vector<GemmWay> all = ways(row.gemm);
    EXPECT_EQ(all[0].engine.has_value(), row.taken) << row.what << ": " << all[0].kernel;
  }
}

TEST_F(Fp8Ways, RunWithTheirScales) {
  const auto address = [](std::uintptr_t a) { return reinterpret_cast<void*>(a); };
  for (const bool fast : {true, false}) {
    const Gemm g = product(e4m3, e5m2, 48, 7, 32, fast);
    const GemmWay way = ways(g)[0];
    EXPECT_EQ(way.kernel, "cublaslt.product_fp8.eng66.k1=20.k8=3");
    const PreparedGemm prepared = prepare(g, way, at_hand());
    prepared.plan->set_scales(address(4), address(8));
    prepared.plan->run(address(256), address(512), address(1024), nullptr, nullptr);
    EXPECT_EQ(library().ran, 66);
    EXPECT_EQ(library().scales, (std::array<std::uint64_t, 2>{4, 8}));
    EXPECT_EQ(library().fast, fast);
  }
}

TEST_F(Fp8Ways, ThatThisVersionHasNotAreRefusedByName) {
  const Gemm g = product(e4m3, e5m2, 48, 7, 32);
  try {
    prepare(g, {"cublaslt.product_fp8.eng5", false, Engine{.index = 5, .knobs = {}}}, at_hand());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("for a product 48x7x32 of float8e4m3fn and float8e5m2 (invalid value)"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tandem::cuda
