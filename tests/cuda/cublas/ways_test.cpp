// Which of cuBLASLt's algorithms a plan names and how they are found again, over a stand-in for the library.
#include "kernels/cuda/cublas/ways.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "tests/cuda/cublas/stand_in.h"

namespace tandem::cuda {
namespace {

using test::cublas::Algorithm;
using test::cublas::algorithm;
using test::cublas::library;

class Ways : public testing::Test {
 protected:
  Ways() {
    library() = {.algorithms = {algorithm(66, 20, 1, 3), algorithm(66, 18, 4), algorithm(21, 20), algorithm(7, 1), algorithm(8, 1)}};
  }
  ~Ways() override { EXPECT_EQ(library().live, 0) << "descriptors were left over"; }

  std::vector<GemmWay> ways(bool timed, std::string_view kernel = {}, cublasLtHandle_t handle = at_hand()) const {
    return ways_to_run(gemm, "cublaslt.matmul", {"MatMul", nullptr, {}, {}, {}, kernel, timed}, handle);
  }
  static std::vector<std::string> names(const std::vector<GemmWay>& ways) {
    std::vector<std::string> names;
    for (const GemmWay& w : ways) names.push_back(w.kernel);
    return names;
  }
  // The number of the algorithm that runs for a way.
  std::int32_t run(const GemmWay& way) const {
    prepare(gemm, way, at_hand()).plan->run(nullptr, nullptr, nullptr, nullptr, nullptr);
    return library().ran;
  }
  std::string refusal(const GemmWay& way) const {
    try {
      run(way);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::device);
      return e.what();
    }
    return "";
  }
  static cublasLtHandle_t at_hand() { return reinterpret_cast<cublasLtHandle_t>(std::uintptr_t{64}); }

  Gemm gemm{.m = 512, .n = 256, .k = 64, .dtype = DType::bfloat16};
};
using Names = std::vector<std::string>;

TEST_F(Ways, AreNamedByAlgorithmAndConfiguration) {
  EXPECT_EQ(names(ways(false)), (Names{"cublaslt.matmul.eng66.k1=20.k8=3"}));
  EXPECT_EQ(names(ways(true)), (Names{"cublaslt.matmul.eng66.k1=20.k8=3", "cublaslt.matmul.eng66.k1=18.k2=4", "cublaslt.matmul.eng21.k1=20",
                                      "cublaslt.matmul.eng7.k1=1", "cublaslt.matmul.eng8.k1=1"}));
}

// What the alignment of buffers lets the library take, of a bias and of what Gelu is of, too; others are not set.
TEST_F(Ways, AreThoseThatTheAlignmentAllows) {
  library().algorithms[0].alignment = 256;
  library().algorithms[1].alignment = 128;
  for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADB,
                                            CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_DGELU}) {
    gemm.epilogue = epilogue;
    for (const auto& [alignment, name] : {std::pair{256, "cublaslt.matmul.eng66.k1=20.k8=3"},
                                          {128, "cublaslt.matmul.eng66.k1=18.k2=4"},
                                          {64, "cublaslt.matmul.eng21.k1=20"}}) {
      gemm.alignment = alignment;
      EXPECT_EQ(names(ways(false)), (Names{name}));
    }
  }
  gemm = {.m = 512, .n = 256, .k = 64, .dtype = DType::bfloat16};
  const auto address = [](std::uintptr_t a) { return reinterpret_cast<void*>(a); };
  prepare(gemm, ways(false)[0], at_hand()).plan->run(address(256), address(512), address(1024), nullptr, nullptr);
  EXPECT_EQ(library().misaligned, 0);
}

// Where several blocks share a sum, it is float32's until it is whole.
TEST_F(Ways, SumInTheTypeThatIsPromised) {
  library().algorithms = {};
  for (const int scheme : {CUBLASLT_REDUCTION_SCHEME_INPLACE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
                           CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_NONE}) {
    library().algorithms.push_back(algorithm(scheme, 20, scheme == CUBLASLT_REDUCTION_SCHEME_NONE ? 1 : 4));
    library().algorithms.back().attributes[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] = scheme;
  }
  const auto schemes = [&](DType dtype, bool deterministic) {
    gemm.dtype = dtype;
    gemm.deterministic = deterministic;
    std::vector<std::int64_t> all;
    for (const GemmWay& way : ways(true)) all.push_back(way.engine->index);
    return all;
  };
  using Schemes = std::vector<std::int64_t>;
  for (const DType narrow : {DType::bfloat16, DType::float16})
    for (const bool deterministic : {false, true}) EXPECT_EQ(schemes(narrow, deterministic), (Schemes{2, 0})) << to_string(narrow);
  EXPECT_EQ(schemes(DType::float32, false), (Schemes{1, 4, 2, 0}));
  EXPECT_EQ(schemes(DType::float32, true), (Schemes{4, 2, 0}));
}

TEST_F(Ways, AreFoundAgainByTheirNamesAlone) {
  const std::vector<GemmWay> all = ways(true);
  // heuristics change from version to version
  std::rotate(library().algorithms.begin(), library().algorithms.begin() + 2, library().algorithms.end());
  library().asked = 0;
  for (const GemmWay& way : all) {
    const std::vector<GemmWay> again = ways(false, way.kernel, nullptr);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].kernel, way.kernel);
    EXPECT_EQ(again[0].engine, way.engine);
    EXPECT_EQ(run(again[0]), way.engine->index);
  }
  EXPECT_EQ(library().asked, 0) << "nothing is left to choose";
}

TEST_F(Ways, AreLeftToTheMachineThatRunsThemWhereNoDeviceIsAtHand) {
  const std::vector<GemmWay> all = ways(true, {}, nullptr);
  EXPECT_EQ(names(all), (Names{"cublaslt.matmul.heuristic"}));
  EXPECT_EQ(library().asked, 0);
  EXPECT_EQ(run(ways(false, all[0].kernel)[0]), 66);
}

TEST_F(Ways, RunTheEpilogueApartWhereNoAlgorithmHasIt) {
  gemm.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  EXPECT_EQ(names(ways(false)), (Names{"cublaslt.matmul.eng66.k1=20.k8=3"}));
  const GemmWay heuristic = ways(false, "cublaslt.matmul.heuristic")[0];
  EXPECT_FALSE(prepare(gemm, heuristic, at_hand()).apart);
  for (Algorithm& a : library().algorithms) a.epilogues = false;
  const std::vector<GemmWay> all = ways(false);
  EXPECT_EQ(names(all), (Names{"cublaslt.matmul.apart.eng66.k1=20.k8=3"}));
  EXPECT_TRUE(prepare(gemm, ways(false, all[0].kernel)[0], at_hand()).apart);
  EXPECT_TRUE(prepare(gemm, heuristic, at_hand()).apart);
  EXPECT_NE(refusal({"cublaslt.matmul.eng66.k1=20.k8=3", false, all[0].engine}), "") << "no algorithm has the epilogue";
}

// What a plan names and this library has not.
TEST_F(Ways, ThatThisVersionHasNotAreRefusedByName) {
  const std::string again = "): a plan made with another version, or for another device, is to be made again";
  const auto refused = [&](const std::string& engine) { return refusal(ways(false, "cublaslt.matmul." + engine)[0]); };
  const std::string product = " for a product 512x256x64 of bfloat16 (";
  EXPECT_EQ(refused("eng67"), "cublaslt.matmul.eng67: cuBLASLt 130100 has no algorithm eng67" + product + "invalid value" + again);
  EXPECT_EQ(refused("eng66.k1=19"),
            "cublaslt.matmul.eng66.k1=19: cuBLASLt 130100 cannot run algorithm eng66.k1=19" + product + "not supported" + again);
  EXPECT_EQ(refused("eng66.k99=1"), "cublaslt.matmul.eng66.k99=1: cuBLASLt 130100 knows no such setting of algorithm eng66.k99=1" +
                                        product + "invalid value" + again);
  library().algorithms[2].workspace = gemm_workspace + 1;
  EXPECT_NE(refused("eng21.k1=20"), "") << "it wants more memory than the plan has";
  library().algorithms.clear();
  EXPECT_EQ(refused("heuristic"), "cublaslt.matmul.heuristic: cuBLASLt has no algorithm for a product 512x256x64 of bfloat16");
}

TEST_F(Ways, ThatAttributesDoNotTellAreNotNamed) {
  library().algorithms[0].untold = true;
  EXPECT_EQ(names(ways(false)), (Names{"cublaslt.matmul.heuristic"}));
  EXPECT_EQ(run(ways(false)[0]), 66) << "the heuristics' own answer has it all";
  EXPECT_EQ(names(ways(true)), (Names{"cublaslt.matmul.eng66.k1=18.k2=4", "cublaslt.matmul.eng21.k1=20", "cublaslt.matmul.eng7.k1=1",
                                      "cublaslt.matmul.eng8.k1=1"}));
}

TEST_F(Ways, OfOtherNamesAreNone) {
  for (const char* name : {"cublaslt.matmul", "cublaslt.matmul.h0", "cublaslt.matmul.eng", "cublaslt.matmul.eng66.k1",
                           "cublaslt.matmul.apart", "cublaslt.matmul.tf32.eng66", "cudnn.matmul.eng1"})
    EXPECT_TRUE(ways(false, name).empty()) << name;
}

}  // namespace
}  // namespace tandem::cuda
