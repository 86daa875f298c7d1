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

const Operand tensors[] = {operand(DType::float32, {20, 7, 3, 3}, "ABcd16b16a"), operand(DType::float32, {5}, "a"), operand(DType::float32, {300, 170}, "ab")};

// All tensors at once, each in its own layout, against the formula; `shared`: outputs in the inputs' memory.
void check(const Row& row, DType dtype, int threads, bool shared) {
  Case c{row.op, row.attributes, {plain(DType::float32, {16})}, {}, threads};
  c.attributes.set("tensors", static_cast<std::int64_t>(std::size(tensors)));
  std::vector<Values> values = {{rate, 3, correction1, correction2, 1, 0, factor1, factor2, 1, 0, 1, 1, 0, 0, 0, 0}};
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
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[k][i], tolerance * std::max(1.0, std::abs(wanted[k][i]))) << row.op << " " << row.name << " tensor " << t << " operand " << k;
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

TEST(NativeUpdate, RunningStatisticsMoveTowardsTheValue) {
  const Operand x = plain(DType::float32, {3});
  EXPECT_EQ(run_values({"RunningStatistics", {{"momentum", 0.75F}}, {x, x}, {x}}, {{0, 4, -8}, {4, 4, 0}})[0], (Values{1, 4, -6}));
}

}  // namespace
}  // namespace tandem::native_tests
