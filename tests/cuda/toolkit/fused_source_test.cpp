// Sources of fused elementwise programs compile for the GPUs we build for. Nothing runs: that needs a GPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kernels/cuda/compiler.h"
#include "kernels/cuda/native/elementwise.h"

namespace tandem::cuda {
namespace {

struct Program {
  const char* name;
  DType dtype;
  Strings ops;
  Ints args;
  std::vector<Shape> inputs;
  int vector;  // elements moved at once
};
void PrintTo(const Program& p, std::ostream* out) { *out << p.name; }
const Shape whole{8, 32, 10, 10};
const Program programs[] = {
    {"add", DType::float32, {"Add"}, {0, 1, -1}, {whole, whole}, 4},
    {"bias_and_relu", DType::float32, {"Add", "Relu"}, {0, 1, -1, 2, -1, -1}, {whole, {1, 32, 1, 1}}, 4},
    {"scale_by_a_number", DType::float32, {"Mul"}, {0, 1, -1}, {whole, {}}, 4},
    {"odd_sizes", DType::float32, {"Add"}, {0, 1, -1}, {{3, 5, 7, 3}, {5, 1, 1}}, 1},
    {"by_row", DType::float32, {"Add"}, {0, 1, -1}, {whole, {8, 1, 1, 1}}, 4},
    {"half", DType::float16, {"Mul", "Tanh"}, {0, 1, -1, 2, -1, -1}, {whole, whole}, 8},
    {"bfloat16", DType::bfloat16, {"Sub", "Sigmoid"}, {0, 1, -1, 2, -1, -1}, {whole, whole}, 8},
    {"double", DType::float64, {"Exp", "Erf", "Pow"}, {0, -1, -1, 1, -1, -1, 2, 0, -1}, {whole}, 2},
    {"int64", DType::int64, {"Div", "Max"}, {0, 1, -1, 2, 0, -1}, {whole, whole}, 2},
};

class FusedSources : public testing::TestWithParam<Program> {};

TEST_P(FusedSources, Compile) {
  const Program& p = GetParam();
  const auto folder = std::filesystem::temp_directory_path() / concat("tandem-", p.name, '-', static_cast<long>(getpid()));
  setenv("TANDEM_CACHE", folder.c_str(), 1);
  const Compiler compiler;
  if (!compiler.available()) GTEST_SKIP() << compiler.unavailable();
  KernelDescription d;
  Shape y;
  for (const Shape& s : p.inputs) {
    d.inputs.push_back({p.dtype, s, s.rank() == 4 ? Layout::channels_last(4) : Layout::row_major(s.rank())});
    y = broadcast(y, s);
  }
  d.outputs = {{p.dtype, y, Layout::channels_last(4)}};
  Attributes a{{"ops", p.ops},
               {"args", p.args},
               {"params", Floats(2 * p.ops.size(), 0.5F)},
               {"results", Ints{static_cast<std::int64_t>(p.inputs.size() + p.ops.size()) - 1}}};
  const std::optional<ElementwiseProgram> program = parse_program(d, "Elementwise", a);
  ASSERT_TRUE(program);
  const FusedSource source = fused_source(*program);
  EXPECT_EQ(source.vector, p.vector);
  for (const char* architecture : {"sm_80", "sm_90"}) {
    const std::vector<char> code = compiler.compile(source.text, architecture);
    EXPECT_GT(code.size(), 500U);
    EXPECT_EQ(compiler.compile(source.text, architecture), code);  // from the cache
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Programs, FusedSources, testing::ValuesIn(programs), [](const auto& info) { return info.param.name; });

TEST(Compiler, ADamagedFileIsCompiledAgain) {
  const auto folder = std::filesystem::temp_directory_path() / concat("tandem-damaged-", static_cast<long>(getpid()));
  setenv("TANDEM_CACHE", folder.c_str(), 1);
  const Compiler compiler;
  if (!compiler.available()) GTEST_SKIP() << compiler.unavailable();
  const auto code = [&] { return compiler.compile("extern \"C\" __global__ void f(int* x) { *x = 1; }", "sm_90"); };
  const auto bytes_of = [](const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const std::vector<char> whole = code();
  const std::filesystem::path file = std::filesystem::directory_iterator(folder)->path();
  const std::string kept = bytes_of(file);
  std::string flipped = kept;
  flipped[kept.size() / 2] ^= 1;
  for (const std::string& damaged : {flipped, kept.substr(0, kept.size() / 2), std::string("no code"), std::string()}) {
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_EQ(code(), whole);
    EXPECT_EQ(bytes_of(file), kept) << "the file is mended";
  }
  std::filesystem::remove_all(folder);
}

TEST(Compiler, AMistakeIsReportedWithTheLog) {
  const Compiler compiler;
  if (!compiler.available()) GTEST_SKIP() << compiler.unavailable();
  setenv("TANDEM_CACHE", "", 1);
  try {
    compiler.compile("extern \"C\" __global__ void f() { undeclared(); }", "sm_90");
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string_view(e.what()).find("undeclared"), std::string_view::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem::cuda
