// LSTM, GRU and RNN by launches for each step, forward and backward, against the CPU's kernels in float64: all cells, directions and
// operands that may be left out, samples and units that fill no tile, and each of the tiles that steps run in.
#include <cmath>

#include "tests/cuda/where.h"

namespace tandem::cuda {
namespace {

struct Form {
  const char* name;
  const char* cell;
  std::int64_t gates, slots;  // numbers a unit that are saved
  bool linear = false, relu = false;
  bool lstm() const { return gates == 4; }
};
const Form forms[] = {{"lstm", "LSTM", 4, 6},
                      {"gru", "GRU", 3, 5},
                      {"gru_linear", "GRU", 3, 5, true},
                      {"rnn", "RNN", 1, 2},
                      {"rnn_relu", "RNN", 1, 2, false, true}};

struct Size {
  const char* name;
  const char* direction;
  std::int64_t T, B, H;
  bool lengths, states;
  int multiprocessors = 0;     // of the plan's device: the fewer, the larger are the tiles
  const char* flows = "yhc";   // which outputs have a gradient
  bool of_matrix = true;       // R has one
};
const Size sizes[] = {
    {"one_of_everything", "forward", 1, 1, 1, false, false},
    {"odd", "forward", 3, 5, 7, false, true},
    {"odd_in_wide_tiles", "forward", 3, 5, 7, true, true, 1, "hc"},
    {"reverse", "reverse", 4, 17, 33, true, true},
    {"reverse_in_middling_tiles", "reverse", 4, 17, 33, true, true, 5},
    {"reverse_in_wide_tiles", "reverse", 4, 17, 33, true, true, 1},
    {"both_ways", "bidirectional", 5, 30, 40, true, false},
    {"both_ways_in_middling_tiles", "bidirectional", 2, 20, 40, true, true, 8, "y"},
    {"both_ways_in_wide_tiles", "bidirectional", 2, 70, 20, false, false, 1, "y", false},
    {"long_sums", "forward", 2, 3, 136, false, true},
    {"long_sums_in_wide_tiles", "forward", 2, 3, 68, false, true, 1},
};

struct Row {
  Form form;
  Size size;
  std::string name() const { return concat(form.name, '_', size.name); }
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name(); }
std::vector<Row> all_rows() {
  std::vector<Row> all;
  for (const Form& f : forms)
    for (const Size& s : sizes) all.push_back({f, s});
  return all;
}

class Recurrent : public InPlaces<Row> {
 protected:
  // Our kernel, for a device with the row's multiprocessors.
  std::vector<Held> ours(const Job& job, const std::vector<Held>& inputs) {
    if (std::get<0>(GetParam()) == Where::gpu) return first(job, inputs);
    const auto describe = [&](KernelRequest request) {
      request.options.multiprocessors = row().size.multiprocessors;
      return describe_emulated(request);
    };
    return run(describe, job, inputs);
  }
};

void expect_alike(const std::vector<Held>& got, const std::vector<Held>& wanted, std::int64_t terms, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i].operand.present()) expect_close(got[i], wanted[i], tolerance_of(DType::float32, terms), concat(what, ": output ", i));
}

TEST_P(Recurrent, AgreesWithTheCpu) {
  const auto& [f, s] = row();
  std::mt19937 random(7);
  const std::int64_t D = s.direction == std::string_view("bidirectional") ? 2 : 1, columns = D * f.gates * s.H;
  const Shape state{D, s.B, s.H}, matrix{D, f.gates * s.H, s.H}, steps{s.T, D, s.B, s.H}, saved{D, s.T, s.B, f.slots * s.H},
      gates{s.T, s.B, columns}, bias{D, s.H};
  const Attributes a{{"cell", std::string(f.cell)},
                     {"direction", std::string(s.direction)},
                     {"linear_before_reset", std::int64_t{f.linear}},
                     {"relu", std::int64_t{f.relu}}};
  const double scale = 1.5 / std::sqrt(static_cast<double>(s.H));
  const Tensor products = random_tensor(random, gates), r = random_tensor(random, matrix, -scale, scale),
               h = random_tensor(random, state, -1, 1), c = random_tensor(random, state), of_reset = random_tensor(random, bias),
               dy = random_tensor(random, steps), dh = random_tensor(random, state), dc = random_tensor(random, state);
  std::vector<std::int32_t> lengths;
  for (std::int64_t b = 0; b < s.B; ++b) lengths.push_back(static_cast<std::int32_t>((b * 3 + 1) % (s.T + 1)));
  const Held times = s.lengths ? hold(Tensor::of<std::int32_t>(Shape{s.B}, lengths), DType::int32) : Held{};
  const auto flows = [&](char which) { return std::string_view(s.flows).find(which) != std::string_view::npos; };
  const auto there = [](bool is, const Tensor& t, DType dtype) { return is ? hold(t, dtype) : Held{}; };

  const auto forward = [&](DType real, bool training) {
    Job job{"RecurrentTraining", a, {{real, steps, {}}, {real, state, {}}}};
    if (f.lstm()) job.outputs.push_back({real, state, {}});
    if (training) job.outputs.push_back({real, saved, {}});
    return job;
  };
  const auto given = [&](DType real) {
    return std::vector{hold(products, real),           hold(r, real), there(s.states, h, real), there(s.states && f.lstm(), c, real), times,
                       there(f.linear, of_reset, real)};
  };
  const auto backward = [&](DType real) {
    Job job{"RecurrentBackward", a, {{real, gates, {}}, {real, state, {}}}};
    if (f.lstm()) job.outputs.push_back({real, state, {}});
    if (s.of_matrix) job.outputs.push_back({real, matrix, {}});
    if (s.of_matrix && f.linear) job.outputs.push_back({real, bias, {}});
    return job;
  };
  const auto flowing = [&](DType real, const Held& kept) {
    return std::vector{
        hold(r, real), kept, times, there(flows('y'), dy, real), there(flows('h'), dh, real), there(flows('c') && f.lstm(), dc, real)};
  };

  const std::int64_t terms = 4 * s.T * (f.gates * s.H + s.B);
  const std::vector<Held> wanted = on_cpu(forward(DType::float64, true), given(DType::float64)),
                          got = ours(forward(DType::float32, true), given(DType::float32));
  expect_alike(got, wanted, terms, "forward");
  const std::vector<Held> inferred = ours(forward(DType::float32, false), given(DType::float32));
  for (std::size_t i = 0; i < inferred.size(); ++i)
    EXPECT_EQ(inferred[i].bytes, got[i].bytes) << "output " << i << " without what is saved";
  expect_alike(ours(backward(DType::float32), flowing(DType::float32, got.back())),
               on_cpu(backward(DType::float64), flowing(DType::float64, wanted.back())), terms, "backward");
}
const auto row_name = [](const auto& info) { return std::get<1>(info.param).name(); };
INSTANTIATE_TEST_SUITE_P(Rows, Recurrent, testing::Combine(testing::Values(Where::host), testing::ValuesIn(all_rows())), row_name);
INSTANTIATE_TEST_SUITE_P(GpuRows, Recurrent, testing::Combine(testing::Values(Where::gpu), testing::ValuesIn(all_rows())), row_name);

}  // namespace
}  // namespace tandem::cuda
