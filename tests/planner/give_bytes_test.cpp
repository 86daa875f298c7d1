// Plans whose input is given as bytes: the same training to the bit, of a quarter of the batch.
#include "tests/graph/notation.h"
#include "tests/planner/given_bytes.h"

namespace tandem {
namespace {

using namespace small_models;

struct Row {
  const char* name;
  bool channels_last;
  std::vector<double> devices;
  Precision precision = Precision::fp32;
  LayoutPreference layout = LayoutPreference::blocked;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const Row rows[] = {
    {"channels_first", false, {1}},
    {"channels_last", true, {1}},
    {"channels_last_kept", true, {1}, Precision::fp32, LayoutPreference::channels_last},
    {"three_devices", true, {2, 1, 1}},
    {"one_without_samples", false, {1, 0}},
    {"bf16", true, {1}, Precision::bf16},
};

class GivenBytesRows : public testing::TestWithParam<Row> {};

TEST_P(GivenBytesRows, TrainTheSameToTheBit) {
  const Row& row = GetParam();
  if (const std::string reason = cpu_backend().declines(row.precision); !reason.empty()) GTEST_SKIP() << reason;
  for (Graph (*const model)(std::int64_t) : {convnet, normalized}) {
    CompileOptions o = options_for(7, row.devices);
    o.precision = row.precision;
    o.layout = row.layout;
    const Trained wanted = train_on_images(cpu_backend(), model, o, 5, 0.05);
    o.given_bytes["x"] = bytes_of_x(row.channels_last);
    const Trained got = train_on_images(cpu_backend(), model, o, 5, 0.05);
    EXPECT_EQ(got.losses, wanted.losses);
    for (std::size_t d = 0; d < wanted.replicas.size(); ++d) expect_same_bits(got.replicas[d], wanted.replicas[d]);
    for (std::size_t d = 0; d < got.plan.devices.size(); ++d) {
      std::int64_t planned = 0;
      for (const Arena& arena : got.plan.program_of(d).arenas) planned += arena.bytes;
      EXPECT_EQ(got.allocated[d], planned);
    }
    const auto x = std::ranges::find(got.plan.inputs, "x", &HostInput::name);
    ASSERT_NE(x, got.plan.inputs.end());
    EXPECT_EQ(x->type, (TensorType{DType::uint8, row.channels_last ? Shape{7, 8, 8, 3} : Shape{7, 3, 8, 8}}));
    const auto& steps = got.plan.program_of(0).steps;
    const auto lookup = std::ranges::find(steps, "LookUp", &Step::op);
    ASSERT_NE(lookup, steps.end());
    EXPECT_EQ(got.plan.program_of(0).buffers[lookup->outputs[0]].operand.dtype,
              row.precision == Precision::bf16 ? DType::bfloat16 : DType::float32)
        << "the table is cast, not the batch";
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, GivenBytesRows, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(GivenBytes, PredictionsAreTheSame) {
  CompileOptions o;
  o.mode = PlanMode::inference;
  o.batch = 4;
  o.devices = {{{"cpu", 0}}};
  o.passes.verify = true;
  const Backend* backends[] = {&cpu_backend()};
  for (const bool last : {false, true}) {
    o.given_bytes["x"] = bytes_of_x(last);
    const Plan plan = compile(convnet, o, backends);
    EXPECT_EQ(plan.inputs.at(0).type, (TensorType{DType::uint8, last ? Shape{4, 8, 8, 3} : Shape{4, 3, 8, 8}}));
  }
}

struct Refused {
  const char* name;
  const char* input;
  GivenBytes bytes;
  const char* says;
};
TEST(GivenBytes, OfWhatTheModelHasNotAreRefused) {
  GivenBytes two = bytes_of_x(false);
  two.table.resize(512);
  const Refused refused[] = {
      {"no such input", "y", bytes_of_x(false), "has no input 'y'"},
      {"two rows for three channels", "x", two, "the table is [2,256]"},
  };
  const Backend* backends[] = {&cpu_backend()};
  for (const Refused& row : refused) {
    CompileOptions o = options_for(4, {1});
    o.given_bytes[row.input] = row.bytes;
    try {
      compile(convnet, o, backends);
      ADD_FAILURE() << row.name;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(row.says), std::string::npos) << row.name << ": " << e.what();
    }
  }
}

}  // namespace
}  // namespace tandem
