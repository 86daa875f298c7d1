#include "graph/updates.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Row {
  const char* op;
  const char* name;
  Attributes attributes;
  int states;
  // one step of one weight
  void (*step)(double& w, double g, double& first, double& second);
};

constexpr double rate = 0.125, correction1 = 0.271, correction2 = 0.0199, factor1 = 0.75, factor2 = 1.25;  // of step 3, say

const Row rows[] = {
    {"SgdUpdate", "plain", {}, 0, [](double& w, double g, double&, double&) { w -= rate * g; }},
    {"SgdUpdate", "decay", {{"weight_decay", 0.25F}}, 0, [](double& w, double g, double&, double&) { w -= rate * (g + 0.25 * w); }},
    {"SgdUpdate", "momentum", {{"momentum", 0.5F}, {"weight_decay", 0.25F}}, 1,
     [](double& w, double g, double& m, double&) { m = 0.5 * m + g + 0.25 * w; w -= rate * m; }},
    {"SgdUpdate", "nesterov", {{"momentum", 0.5F}, {"nesterov", std::int64_t{1}}}, 1,
     [](double& w, double g, double& m, double&) { m = 0.5 * m + g; w -= rate * (g + 0.5 * m); }},
    {"AdamUpdate", "adam", {{"beta1", 0.75F}, {"beta2", 0.9375F}, {"epsilon", 0.0009765625F}, {"weight_decay", 0.25F}, {"decoupled", std::int64_t{0}}}, 2,
     [](double& w, double g, double& m, double& v) {
       g += 0.25 * w;
       m = 0.75 * m + 0.25 * g;
       v = 0.9375 * v + 0.0625 * g * g;
       w -= rate * (m / correction1) / (std::sqrt(v / correction2) + 0.0009765625);
     }},
    {"AdamUpdate", "adamw", {{"beta1", 0.75F}, {"beta2", 0.9375F}, {"epsilon", 0.0009765625F}, {"weight_decay", 0.25F}, {"decoupled", std::int64_t{1}}}, 2,
     [](double& w, double g, double& m, double& v) {
       w -= rate * 0.25 * w;
       m = 0.75 * m + 0.25 * g;
       v = 0.9375 * v + 0.0625 * g * g;
       w -= rate * (m / correction1) / (std::sqrt(v / correction2) + 0.0009765625);
     }},
    {"RmspropUpdate", "plain", {{"rho", 0.875F}, {"epsilon", 0.0009765625F}, {"weight_decay", 0.25F}}, 1,
     [](double& w, double g, double& s, double&) {
       g += 0.25 * w;
       s = 0.875 * s + 0.125 * g * g;
       w -= rate * g / (std::sqrt(s) + 0.0009765625);
     }},
    {"RmspropUpdate", "momentum", {{"rho", 0.875F}, {"epsilon", 0.0009765625F}, {"momentum", 0.5F}}, 2,
     [](double& w, double g, double& s, double& m) {
       s = 0.875 * s + 0.125 * g * g;
       m = 0.5 * m + g / (std::sqrt(s) + 0.0009765625);
       w -= rate * m;
     }},
};

const Operand tensors[] = {operand(DType::float32, {20, 7, 3, 3}, "ABcd16b16a"), operand(DType::float32, {5}, "a"),
                           operand(DType::float32, {300, 170}, "ab")};

// All tensors at once, each in its own layout, against the formula; `shared`: outputs in the inputs' memory.
void check(const Row& row, DType dtype, int threads, bool shared) {
  Case c{row.op, row.attributes, {plain(DType::float32, {16})}, {}, threads};
  c.attributes.set("tensors", static_cast<std::int64_t>(std::size(tensors)));
  std::vector<Values> values = {{rate, 3, correction1, correction2, 1, 0, factor1, factor2, 1, 0, 1, 0, 0, 0, 0, 0}};
  for (Operand t : tensors) {
    t.dtype = dtype;
    for (int k = 0; k < 2 + row.states; ++k) {
      c.inputs.push_back(k == 0 ? t : operand(dtype, t.shape));
      values.push_back(random_values(t.shape.elements(), static_cast<unsigned>(values.size()), k < 2 ? -1 : 0, 1));
    }
    for (int k = 0; k < 1 + row.states; ++k) c.outputs.push_back(operand(dtype, t.shape));
  }
  const KernelDescription d = described(c);
  std::vector<Buffer> inputs;
  for (std::size_t i = 0; i < values.size(); ++i) inputs.emplace_back(d.inputs[i], values[i]);
  std::vector<int> sharing(d.outputs.size(), -1);
  for (const auto& [out, in] : d.in_place)
    if (shared) sharing[static_cast<std::size_t>(out)] = in;
  std::vector<Buffer> outputs = run(d, inputs, sharing);
  const std::size_t ins = static_cast<std::size_t>(row.states) + 2, outs = ins - 1;
  for (std::size_t t = 0; t < std::size(tensors); ++t) {
    const Values* const x = values.data() + 1 + t * ins;
    std::vector<Values> wanted(outs);
    for (std::size_t i = 0; i < x[0].size(); ++i) {
      double state[3] = {x[0][i], row.states > 0 ? x[2][i] : 0, row.states > 1 ? x[3][i] : 0};
      row.step(state[0], x[1][i], state[1], state[2]);
      for (std::size_t k = 0; k < outs; ++k) wanted[k].push_back(state[k]);
    }
    for (std::size_t k = 0; k < outs; ++k) {
      const Values got = outputs[t * outs + k].values();
      // The rates reach the kernel as float32.
      const double tolerance = dtype == DType::float32 ? 4e-6 : 2e-7;
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], wanted[k][i], tolerance * std::max(1.0, std::abs(wanted[k][i])))
            << row.op << " " << row.name << " tensor " << t << " operand " << k;
    }
  }
}

TEST(NativeUpdate, FollowsTheFormulasOnAllTensorsInTheirLayouts) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const Row& row : rows)
      for (const DType dtype : {DType::float32, DType::float64})
        for (const bool shared : {false, true}) check(row, dtype, 3, shared);
  }
}

// A gradient of bfloat16 moves weights and states as the same numbers in float32 do, but for the last bit, as compilers contract sums; a
// copy is the weight rounded. Of every formula, with averages and norms.
TEST(NativeUpdate, NarrowGradientsMoveWeightsAsWideOnesDo) {
  const Operand weights[] = {operand(DType::float32, {32, 16, 3, 3}, "ABcd16b16a"), operand(DType::float32, {5}, "a"),
                             operand(DType::float32, {130, 130}, "ab")};
  const Attributes forms[] = {{},
                              {{"momentum", 0.5F},
                               {"nesterov", std::int64_t{1}},
                               {"centered", std::int64_t{1}},
                               {"amsgrad", std::int64_t{1}},
                               {"weight_decay", 0.25F}},
                              {{"momentum", 0.5F}, {"average", std::int64_t{1}}, {"clip_norm", 2.0F}, {"clip_value", 0.5F}}};
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const UpdateRow& row : update_rows())
      for (const Attributes& form : forms)
        for (const bool copies : {false, true}) {
          SCOPED_TRACE(concat(isa, ' ', row.op, ' ', to_string(form), copies ? " with copies" : ""));
          const auto updated = [&](bool narrow) {
            Case c{row.op, form, {plain(DType::float32, {16})}, {}, 3};
            for (const char* const decay : {"rho", "beta1", "beta2"}) c.attributes.set(decay, 0.875F);
            c.attributes.set("epsilon", 0.0009765625F);
            c.attributes.set("tensors", static_cast<std::int64_t>(std::size(weights)));
            if (copies && narrow) c.attributes.set("copies", std::int64_t{1});
            const int states = update_numbers(row.kind, c.attributes).states;
            std::vector<Values> values = {{rate, 3, correction1, correction2, 1, 0, factor1, factor2, 1, 0, 0.25, 0, 0, 0, 0, 0}};
            unsigned seed = 1;
            for (const Operand& t : weights) {
              for (int k = 0; k < 2 + states; ++k) {
                const DType dtype = k == 1 && narrow ? DType::bfloat16 : DType::float32;
                c.inputs.push_back(k == 0 ? t : operand(dtype, t.shape));
                // squares above those of means
                values.push_back(random_values(t.shape.elements(), seed++, k < 2 ? -1 : k == 2 ? 1 : 0, k == 2 ? 2 : 1));
                if (k == 1) values.back() = Buffer(plain(DType::bfloat16, t.shape), values.back()).values();
              }
              for (int k = 0; k < 1 + states; ++k) c.outputs.push_back(operand(DType::float32, t.shape));
              if (!c.attributes.has("copies")) continue;
              c.inputs.push_back(operand(DType::bfloat16, t.shape));
              values.push_back(Values(static_cast<std::size_t>(t.shape.elements()), 0));
              c.outputs.push_back(operand(DType::bfloat16, t.shape));
            }
            const KernelDescription d = described(c);
            std::vector<Buffer> inputs;
            for (std::size_t i = 0; i < values.size(); ++i) inputs.emplace_back(d.inputs[i], values[i]);
            std::vector<Values> got;
            for (Buffer& b : run(d, inputs)) got.push_back(b.values());
            return got;
          };
          const std::vector<Values> wanted = updated(false), got = updated(true);
          const std::size_t each = wanted.size() / std::size(weights), narrow = each + copies;
          ASSERT_EQ(got.size(), narrow * std::size(weights));
          for (std::size_t t = 0; t < std::size(weights); ++t) {
            for (std::size_t k = 0; k < each; ++k)
              for (std::size_t i = 0; i < wanted[t * each + k].size(); ++i) {
                const double x = wanted[t * each + k][i];
                ASSERT_NEAR(got[t * narrow + k][i], x, 0x1p-23 * std::max(1.0, std::abs(x)))
                    << "tensor " << t << " operand " << k << " element " << i;
              }
            if (!copies) continue;
            const Operand& w = weights[t];
            ASSERT_EQ(got[t * narrow + each], Buffer(plain(DType::bfloat16, w.shape), got[t * narrow]).values()) << "tensor " << t;
          }
        }
  }
}

// What reads all gradients reads those of bfloat16 as the same numbers in float32.
TEST(NativeUpdate, NormsAndFaultsOfNarrowGradientsAreThoseOfWideOnes) {
  const Shape large{130, 130}, small{5};
  const Operand scalars = plain(DType::float32, {16}), number = plain(DType::float32, {});
  Values of_large = Buffer(plain(DType::bfloat16, large), random_values(large.elements(), 1, -1, 1)).values();
  const Values of_small = random_values(5, 2, -1, 1);
  const Values step = {rate, 3, correction1, correction2, 1, 0, factor1, factor2, 1, 0, 0, 0, 0, 0, 0, 0};
  std::vector<Values> got;
  for (const DType dtype : {DType::float32, DType::bfloat16})
    got.push_back(
        run_values({"ClipScalars", {{"clip_norm", 0.5F}}, {scalars, plain(dtype, large), plain(DType::float32, small)}, {scalars}, 3},
                   {step, of_large, of_small})[0]);
  EXPECT_EQ(got[0], got[1]);
  EXPECT_LT(got[0][8], 1) << "nothing was clipped";
  for (const double fault : {0.5, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    of_large.back() = fault;
    EXPECT_EQ(
        run_values({"AllFinite", {}, {plain(DType::bfloat16, large), plain(DType::float32, small)}, {number}, 3}, {of_large, of_small})[0],
        Values{std::isfinite(fault) ? 1.0 : 0.0});
  }
}

TEST(NativeUpdate, RunningStatisticsMoveTowardsTheValue) {
  const Operand x = plain(DType::float32, {3});
  EXPECT_EQ(run_values({"RunningStatistics", {{"momentum", 0.75F}}, {x, x}, {x}}, {{0, 4, -8}, {4, 4, 0}})[0], (Values{1, 4, -6}));
}

}  // namespace
}  // namespace tandem::native_tests
