// Normalization of rows and of groups of channels, forward and backward, against the CPU's kernels in float64.
#include "graph/half.h"
#include "kernels/cuda/native/describe.h"
#include "tests/cuda/where.h"

namespace tandem::cuda {
namespace {

class Normalizations : public InPlaces<DType> {
 protected:
  // Of x, and of scales and statistics.
  struct Types {
    DType real, wide;
  };
  const Types ours{row(), row() == DType::float64 ? DType::float64 : DType::float32}, reference{DType::float64, DType::float64};
  std::mt19937 random{23};
  bool narrow() const { return size_of(row()) == 2; }
  // Of what is stored in x's type, and of what is summed in the statistics'.
  double rounding() const { return narrow() ? 4 * (row() == DType::bfloat16 ? 0x1p-8 : 0x1p-11) : 0; }
  double stored(std::int64_t terms) const { return tolerance_of(ours.wide, terms) * 4 + rounding(); }
  double summed(std::int64_t terms) const { return tolerance_of(ours.wide, terms) * 4; }
  // Sums of two are exact in every type.
  Tensor numbers(const Shape& shape) { return random_tensor(random, shape, -1, 1); }
  static void expect_all(const std::vector<Held>& got, const std::vector<Held>& wanted,
                         std::initializer_list<std::pair<const char*, double>> rows, const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    std::size_t i = 0;
    for (const auto& [name, tolerance] : rows)
      if (i < got.size()) expect_close(got[i], wanted[i], tolerance, concat(what, ": ", name)), ++i;
  }
};

struct RowForm {
  const char* name;
  bool scale, bias, addend, rms;
};
constexpr RowForm row_forms[] = {{"alone", false, false, false, false},
                                 {"scaled", true, false, false, true},
                                 {"whole", true, true, false, false},
                                 {"behind a sum", true, true, true, false},
                                 {"rms behind a sum", true, false, true, true}};
struct RowSize {
  Shape x;
  std::int64_t axis;
};
// Odd rows, rows of one warp and of blocks of each size, rows that stay in registers and such that do not, many rows.
const RowSize row_sizes[] = {{{7, 13}, 1},  {{3, 5, 64}, 2}, {{2, 6, 16, 8}, 2}, {{14, 712}, 1}, {{3, 1016}, 1}, {{2, 2, 1096}, 2},
                             {{2, 518}, 1}, {{2, 3072}, 1},  {{2, 6152}, 1},     {{2, 8264}, 1}, {{90, 8}, 1}};

TEST_P(Normalizations, OfRows) {
  for (const RowSize& size : row_sizes)
    for (const RowForm& form : row_forms) {
      Shape of_row(Ints(size.x.begin() + size.axis, size.x.end())), statistics = size.x;
      for (auto i = static_cast<int>(size.axis); i < statistics.rank(); ++i) statistics[i] = 1;
      const Tensor x = numbers(size.x), addend = numbers(size.x), dy = numbers(size.x), dsum = numbers(size.x),
                   scale = random_tensor(random, of_row, 0.5, 2), bias = numbers(of_row);
      Attributes a{{"axis", size.axis}, {"epsilon", 0.015625F}};
      if (form.rms) a.set("rms", std::int64_t{1});
      const std::int64_t n = of_row.elements(), rows = size.x.elements() / n;
      if (n > 500 && !(form.addend && form.bias)) continue;  // they take the emulation long
      const auto inputs = [&](const Types& t) {
        const auto given = [&](bool there, const Tensor& v) { return there ? hold(v, t.wide) : Held{}; };
        std::vector<Held> in{hold(x, t.real), given(form.scale, scale), given(form.bias, bias)};
        if (form.addend) in.push_back(hold(addend, t.real));
        return in;
      };
      const auto forward = [&](const Types& t) {
        const Operand like_x{t.real, size.x, {}}, statistic{t.wide, statistics, {}};
        Job job{"RowNormalization", a, {like_x, statistic, statistic}};
        if (form.addend) job.outputs.push_back(like_x);
        return job;
      };
      const auto backward = [&](const Types& t) {
        Job job{"RowNormalizationBackward", a, {{t.real, size.x, {}}}};
        if (form.scale) job.outputs.push_back({t.wide, of_row, {}});
        if (form.bias) job.outputs.push_back({t.wide, of_row, {}});
        return job;
      };
      const auto flows = [&](const Types& t, const std::vector<Held>& f) {
        std::vector<Held> in = inputs(t);
        std::vector<Held> all{hold(dy, t.real), form.addend ? f[3] : in[0], in[1], f[1], f[2]};
        if (form.addend) all.push_back(hold(dsum, t.real));
        return all;
      };
      const std::vector<Held> f_cpu = on_cpu(forward(reference), inputs(reference)),
                              g_cpu = on_cpu(backward(reference), flows(reference, f_cpu));
      for (const Ran& f : own(forward(ours), inputs(ours))) {
        const std::string what = concat(f.kernel, ' ', size.x, ' ', form.name);
        ASSERT_GE(f.outputs.size(), 3U);
        std::vector<Held> got = f.outputs;
        if (form.rms) got[1] = f_cpu[1];  // it need not be written
        expect_all(got, f_cpu, {{"y", stored(n)}, {"mean", summed(n)}, {"inverse deviation", summed(n)}, {"sum", 0}}, what);
        for (const Ran& g : own(backward(ours), flows(ours, f.outputs)))
          expect_all(g.outputs, g_cpu, {{"dx", stored(n)}, {"dscale", summed(rows)}, {"dbias", summed(rows)}},
                     concat(what, ", ", g.kernel));
      }
    }
}

// Beside float32 x, an addend, y and dy of 16 bits: what the same kernels compute of float32 numbers, rounded once.
TEST_P(Normalizations, OfRowsBesideFloat32) {
  if (!narrow()) GTEST_SKIP() << "numbers of 16 bits only";
  const auto first = [&](const Job& job, const std::vector<Held>& inputs) -> std::vector<Held> {
    for (Ran& ran : own(job, inputs))
      if (ran.kernel.starts_with("native.")) return std::move(ran.outputs);
    ADD_FAILURE() << "no kernel of our own";
    return {};
  };
  for (const RowSize& size : row_sizes) {
    Shape of_row(Ints(size.x.begin() + size.axis, size.x.end())), statistics = size.x;
    for (auto i = static_cast<int>(size.axis); i < statistics.rank(); ++i) statistics[i] = 1;
    const Tensor x = numbers(size.x), addend = numbers(size.x), dy = numbers(size.x), dsum = numbers(size.x),
                 scale = random_tensor(random, of_row, 0.5, 2), bias = numbers(of_row);
    const DType wide = DType::float32;
    const auto forward = [&](bool adds, DType of_addend, DType of_y, bool copies = false) {
      Job job{"RowNormalization",
              {{"axis", size.axis}, {"epsilon", 0.015625F}},
              {{of_y, size.x, {}}, {wide, statistics, {}}, {wide, statistics, {}}}};
      std::vector<Held> in{hold(x, wide), hold(scale, wide), hold(bias, wide)};
      if (adds) {
        in.push_back(hold(addend, of_addend));
        job.outputs.push_back({wide, size.x, {}});
      }
      if (copies) job.outputs.push_back({of_addend, size.x, {}});
      return first(job, in);
    };
    const auto rounded = [&](const Held& h) {
      std::vector<double> v = values_of(h);
      for (double& d : v)
        d = row() == DType::bfloat16 ? static_cast<double>(tandem::to_float(tandem::to_bfloat16(static_cast<float>(d))))
                                     : static_cast<double>(tandem::to_float(tandem::to_float16(static_cast<float>(d))));
      return v;
    };
    for (const bool adds : {false, true}) {
      if (!adds && of_row.elements() > 500) continue;  // they take the emulation long
      const std::vector<Held> wanted = forward(adds, wide, wide);
      for (const DType of_y : {wide, row()}) {
        if (!adds && of_y == wide) continue;
        const std::vector<Held> got = forward(adds, row(), of_y);
        ASSERT_EQ(got.size(), wanted.size());
        EXPECT_EQ(values_of(got[0]), of_y == wide ? values_of(wanted[0]) : rounded(wanted[0]))
            << to_string(size.x) << ' ' << to_string(of_y);
        for (std::size_t i = 1; i < got.size(); ++i) EXPECT_EQ(values_of(got[i]), values_of(wanted[i])) << to_string(size.x) << ' ' << i;
      }
      if (adds) {
        const std::vector<Held> both = forward(adds, row(), wide, true);
        ASSERT_EQ(both.size(), 5U);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          EXPECT_EQ(values_of(both[i]), values_of(wanted[i])) << to_string(size.x) << ' ' << i;
        EXPECT_EQ(values_of(both[4]), rounded(wanted[0])) << to_string(size.x) << ": y in both types";
      }
      const Operand like_row{wide, of_row, {}};
      const auto backward = [&](DType of_dy) {
        Job job{"RowNormalizationBackward", {{"axis", size.axis}}, {{wide, size.x, {}}, like_row, like_row}};
        std::vector<Held> in{hold(dy, of_dy), hold(x, wide), hold(scale, wide), wanted[1], wanted[2]};
        if (adds) in.push_back(hold(dsum, wide));
        return first(job, in);
      };
      const std::vector<Held> got = backward(row()), same = backward(wide);
      ASSERT_EQ(got.size(), same.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(values_of(got[i]), values_of(same[i])) << to_string(size.x) << ": gradient " << i;

      // What is added to dy on the way is as a sum of its own.
      Tensor sum(TensorType{DType::float64, size.x});
      const std::vector<double> a = values_of(hold(dy, wide)), b = values_of(hold(addend, row()));
      for (std::size_t i = 0; i < a.size(); ++i) sum.write<double>()[i] = a[i] + b[i];
      const auto backward_of_two = [&](bool summed_before) {
        const Job job{"RowNormalizationBackward", {{"axis", size.axis}}, {{wide, size.x, {}}, like_row, like_row}};
        std::vector<Held> in{hold(summed_before ? sum : dy, wide), hold(x, wide), hold(scale, wide), wanted[1], wanted[2],
                             adds ? hold(dsum, wide) : Held{}};
        if (!summed_before) in.push_back(hold(addend, row()));
        return first(job, in);
      };
      const std::vector<Held> two = backward_of_two(false), one = backward_of_two(true);
      ASSERT_EQ(two.size(), one.size());
      for (std::size_t i = 0; i < two.size(); ++i)
        EXPECT_EQ(values_of(two[i]), values_of(one[i])) << to_string(size.x) << ": gradient of two, " << i;
    }
  }
}

// An addend that is dropped on the way, and dx once more, dropped or not: the bits of kernels of their own.
TEST_P(Normalizations, OfRowsThatDrop) {
  if (row() == DType::float64) GTEST_SKIP() << "no kernel drops rows of float64";
  const DType wide = DType::float32, real = row();
  const auto ran = [&](const Job& job, const std::vector<Held>& inputs) -> std::vector<Held> {
    for (Ran& one : own(job, inputs))
      if (one.kernel.starts_with("native.")) return std::move(one.outputs);
    ADD_FAILURE() << "no kernel of our own for " << job.op;
    return {};
  };
  const Held state = hold(Tensor::of<std::int64_t>({4}, {0x123456789abcdef, 9, 5, 0}), DType::int64);
  const Attributes drops{{"ratio", 0.375F}, {"layer", std::int64_t{77}}};
  for (const RowSize& size : {RowSize{{3, 5, 64}, 2}, RowSize{{6, 2, 12}, 2}, RowSize{{14, 712}, 1}, RowSize{{3, 1016}, 1},
                              RowSize{{2, 2, 1096}, 2}, RowSize{{2, 3072}, 1}, RowSize{{2, 8264}, 1}}) {
    Shape of_row(Ints(size.x.begin() + size.axis, size.x.end())), statistics = size.x;
    for (auto i = static_cast<int>(size.axis); i < statistics.rank(); ++i) statistics[i] = 1;
    const std::int64_t sample = size.x.elements() / size.x[0];
    Attributes rows{{"axis", size.axis}, {"epsilon", 0.015625F}}, dropout = drops;
    dropout.set("axis", std::int64_t{0});
    const Operand like_x{wide, size.x, {}}, statistic{wide, statistics, {}}, like_row{wide, of_row, {}}, narrow{real, size.x, {}};
    const Held x = hold(numbers(size.x), wide), addend = hold(numbers(size.x), real), dy = hold(numbers(size.x), real),
               scale = hold(random_tensor(random, of_row, 0.5, 2), wide), bias = hold(numbers(of_row), wide);
    const auto dropped = [&](const Held& v) { return ran({"DropoutTraining", dropout, {narrow}}, {v, state})[0]; };
    const auto expect_equal = [&](const std::vector<Held>& got, const std::vector<Held>& wanted, const char* what) {
      ASSERT_EQ(got.size(), wanted.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bytes, wanted[i].bytes) << to_string(size.x) << ' ' << what << ' ' << i;
    };
    Attributes joined = rows;
    for (const auto& [name, value] : drops) joined.set(name, value);
    joined.set("sample", sample);
    const std::vector<Operand> outputs{like_x, statistic, statistic, like_x};
    const std::vector<Held> apart = ran({"RowNormalization", rows, outputs}, {x, scale, bias, dropped(addend)});
    expect_equal(ran({"RowNormalization", joined, outputs}, {x, scale, bias, addend, state}), apart, "forward");

    std::vector<Held> flows{dy, x, scale, apart[1], apart[2]};
    const std::vector<Held> gradient = ran({"RowNormalizationBackward", rows, {like_x, like_row, like_row}}, flows);
    const Held copy = real == wide ? gradient[0] : ran({"Cast", {{"to", static_cast<std::int64_t>(real)}}, {narrow}}, {gradient[0]})[0];
    const std::vector<Operand> with_copy{like_x, like_row, like_row, narrow};
    const auto with = [&](const Held& v) { return std::vector{gradient[0], gradient[1], gradient[2], v}; };
    if (real != wide) {
      rows.set("copy", static_cast<std::int64_t>(real));
      expect_equal(ran({"RowNormalizationBackward", rows, with_copy}, flows), with(copy), "gradient in both types");
    }
    joined.set("copy", static_cast<std::int64_t>(real));
    flows.insert(flows.end(), {Held{}, Held{}, state});
    expect_equal(ran({"RowNormalizationBackward", joined, with_copy}, flows), with(dropped(copy)), "dropped gradient");
    if (real == wide) continue;
    flows[6] = flows[0];  // what is added to dy of float32
    flows[0] = hold(numbers(size.x), wide);
    std::vector<Held> plain(flows.begin(), flows.begin() + 7);
    const std::vector<Held> of_two = ran({"RowNormalizationBackward", rows, {like_x, like_row, like_row}}, plain);
    const Held two = ran({"Cast", {{"to", static_cast<std::int64_t>(real)}}, {narrow}}, {of_two[0]})[0];
    expect_equal(ran({"RowNormalizationBackward", joined, with_copy}, flows), {of_two[0], of_two[1], of_two[2], dropped(two)},
                 "dropped gradient of two");
  }
}

// So few blocks that each takes rows in several turns; what its warps hold of a column's sum is added up in the same order in every run.
TEST(RowGradients, OfRowsThatFewBlocksTakeInTurns) {
  const DescribeFunction of_one_multiprocessor = [](KernelRequest request) {
    request.options.multiprocessors = 1;
    return describe_emulated(request);
  };
  std::mt19937 random{29};
  for (const Shape& x :
       {Shape{50, 24}, Shape{50, 512}, Shape{39, 712}, Shape{27, 1024}, Shape{11, 1096}, Shape{7, 2056}, Shape{4, 5000}, Shape{11, 37}}) {
    const Shape statistics{x[0], 1}, row{x[1]};
    const Tensor of_x[] = {random_tensor(random, x), random_tensor(random, x), random_tensor(random, x)},
                 scale = random_tensor(random, row, 0.5, 2), mean = random_tensor(random, statistics, -1, 1),
                 inverse_deviation = random_tensor(random, statistics, 0.5, 2);
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const auto job = [&](DType real, DType wide) {
        return Job{"RowNormalizationBackward", {{"axis", std::int64_t{1}}}, {{real, x, {}}, {wide, row, {}}, {wide, row, {}}}};
      };
      const auto inputs = [&](DType real, DType wide) {
        return std::vector{hold(of_x[0], real), hold(of_x[1], real),           hold(scale, wide),
                           hold(mean, wide),    hold(inverse_deviation, wide), hold(of_x[2], real)};
      };
      std::vector<Held> in = inputs(DType::float64, DType::float64), given = inputs(dtype, DType::float32);
      for (const std::size_t i : {0, 1, 5}) {  // as they are stored
        Tensor stored(TensorType{DType::float64, x});
        std::ranges::copy(values_of(given[i]), stored.write<double>().begin());
        in[i] = hold(stored, DType::float64);
      }
      const std::vector<Held> wanted = on_cpu(job(DType::float64, DType::float64), in),
                              got = run(of_one_multiprocessor, job(dtype, DType::float32), given),
                              again = run(of_one_multiprocessor, job(dtype, DType::float32), given);
      ASSERT_EQ(got.size(), 3U);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::string what = concat(x, ' ', dtype, ": output ", i);
        const double rounding = i == 0 && dtype == DType::bfloat16 ? 4 * 0x1p-8 : 0;
        expect_close(got[i], wanted[i], 4 * tolerance_of(DType::float32, i == 0 ? x[1] : x[0]) + rounding, what);
        EXPECT_EQ(got[i].bytes, again[i].bytes) << what;
      }
    }
  }
}

struct GroupSize {
  Shape x;
  std::int64_t groups;
};
// Channels in packs and not, groups of a part of a pack and of several, one channel each, of images, lines and rows.
const GroupSize group_sizes[] = {{{2, 6, 5, 4}, 3}, {{3, 32, 7, 7}, 4}, {{1, 40, 17, 9}, 20},
                                 {{2, 24, 45}, 24}, {{4, 16}, 2},       {{1, 264, 9}, 1}};

TEST_P(Normalizations, OfGroups) {
  for (const GroupSize& size : group_sizes)
    for (const bool scaled : {false, true}) {
      const Shape channels{size.x[1]}, statistics{size.x[0], size.groups};
      const Tensor x = numbers(size.x), dy = numbers(size.x), scale = random_tensor(random, channels, 0.5, 2), bias = numbers(channels);
      const std::int64_t n = size.x.elements() / statistics.elements(), of_channel = size.x.elements() / size.x[1];
      const auto inputs = [&](const Types& t) {
        std::vector<Held> in{hold(x, t.real)};
        if (scaled) in.push_back(hold(scale, t.wide)), in.push_back(hold(bias, t.wide));
        return in;
      };
      const auto forward = [&](const Types& t) {
        const Operand statistic{t.wide, statistics, {}};
        return Job{
            "GroupNormalizationTraining", {{"groups", size.groups}, {"epsilon", 0.015625F}}, {{t.real, size.x, {}}, statistic, statistic}};
      };
      const auto backward = [&](const Types& t) {
        const Operand like_x{t.real, size.x, {}}, channel{t.wide, channels, {}};
        return Job{
            "GroupNormalizationBackward", {{"groups", size.groups}}, scaled ? std::vector{like_x, channel, channel} : std::vector{like_x}};
      };
      const auto flows = [&](const Types& t, const std::vector<Held>& f) {
        return std::vector{hold(dy, t.real), hold(x, t.real), scaled ? hold(scale, t.wide) : Held{}, f[1], f[2]};
      };
      const std::vector<Held> f_cpu = on_cpu(forward(reference), inputs(reference)),
                              g_cpu = on_cpu(backward(reference), flows(reference, f_cpu));
      for (const Ran& f : own(forward(ours), inputs(ours))) {
        const std::string what = concat(f.kernel, ' ', size.x, " in ", size.groups, scaled ? ", scaled" : "");
        ASSERT_EQ(f.outputs.size(), 3U);
        expect_all(f.outputs, f_cpu, {{"y", stored(n)}, {"mean", summed(n)}, {"inverse deviation", summed(n)}}, what);
        for (const Ran& g : own(backward(ours), flows(ours, f.outputs)))
          expect_all(g.outputs, g_cpu, {{"dx", stored(n)}, {"dscale", summed(of_channel)}, {"dbias", summed(of_channel)}},
                     concat(what, ", ", g.kernel));
      }
    }
}

const auto types = testing::Values(DType::float32, DType::float64, DType::float16, DType::bfloat16);
const auto type_name = [](const auto& info) { return to_string(std::get<1>(info.param)); };
INSTANTIATE_TEST_SUITE_P(Types, Normalizations, testing::Combine(testing::Values(Where::host), types), type_name);
INSTANTIATE_TEST_SUITE_P(GpuTypes, Normalizations, testing::Combine(testing::Values(Where::gpu), types), type_name);

}  // namespace
}  // namespace tandem::cuda
