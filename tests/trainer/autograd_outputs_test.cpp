// Outputs that no node computes, or that are one value under two names: the forward pass gives them, and their gradients count.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "trainer/autograd.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 4, inputs = 3, classes = 2;

using Values = std::vector<float>;
Values numbers(std::int64_t n, float first, float step) {
  Values v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = first + step * static_cast<float>(i % 7);
  return v;
}
const Values x = numbers(samples * inputs, 1, 0.5F), w = numbers(inputs * classes, -1, 0.25F);

Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t k, std::int64_t n, bool a_turned, bool b_turned) {
  Values c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        c[static_cast<std::size_t>(i * n + j)] += a[static_cast<std::size_t>(a_turned ? l * m + i : i * k + l)] *
                                                  b[static_cast<std::size_t>(b_turned ? j * k + l : l * n + j)];
  return c;
}
void add(Values& to, const Values& more) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

struct Row {
  const char* name;
  std::vector<std::pair<std::string, std::string>> outputs;  // beside y, and what each is: x, y or w
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

Tensor tensor_of(const std::string& what, const Values& values) {
  const Shape shape = what == "x" ? Shape{samples, inputs} : what == "w" ? Shape{inputs, classes} : Shape{samples, classes};
  return Tensor::of<float>(shape, std::span<const float>(values));
}
Values named(const std::vector<NamedTensor>& list, const std::string& name) {
  const auto found = std::ranges::find(list, name, &NamedTensor::name);
  if (found == list.end()) throw std::runtime_error("nothing is named " + name);
  return {found->tensor.values<float>().begin(), found->tensor.values<float>().end()};
}

class AutogradOutputs : public testing::TestWithParam<Row> {};

TEST_P(AutogradOutputs, AreGivenAndTheirGradientsCount) {
  test::Model m;
  m.input("x", "N,3").output("y").add(float_tensor("w", {inputs, classes}, w)).add(node("MatMul", {"x", "w"}, {"y"}));
  for (const auto& [name, what] : GetParam().outputs) {
    if (name != what) m.add(node("Identity", {what}, {name}));
    m.output(name);
  }
  const Model source(m.parse());
  for (const char* const devices : {"cpu", "cpu:0-1"})
    for (const AutogradMode mode : {AutogradMode::train, AutogradMode::eval, AutogradMode::predict}) {
      SCOPED_TRACE(devices);
      AutogradOptions o{.inputs = {"x"}, .mode = mode};
      o.model.plan.batch = samples;
      o.model.plan.devices = parse_devices(devices);
      if (mode == AutogradMode::predict) o.inputs.clear();
      o.parameters = mode == AutogradMode::predict ? std::vector<std::string>{} : std::vector<std::string>{"w"};
      Autograd passes(source.source(), o, backends);
      const std::vector<NamedTensor> given = passes.forward(std::vector<NamedTensor>{{"x", tensor_of("x", x)}});
      const Values y = product(x, w, samples, inputs, classes, false, false);
      EXPECT_EQ(named(given, "y"), y);
      for (const auto& [name, what] : GetParam().outputs) EXPECT_EQ(named(given, name), what == "x" ? x : what == "w" ? w : y) << name;
      if (mode == AutogradMode::predict) continue;

      Values of_y = numbers(samples * classes, 0.5F, -0.25F), of_x(x.size()), of_w(w.size());
      std::vector<NamedTensor> gradients{{"y", tensor_of("y", of_y)}};
      float first = 1;
      for (const auto& [name, what] : GetParam().outputs) {
        Values& sum = what == "x" ? of_x : what == "w" ? of_w : of_y;
        const Values more = numbers(std::ssize(sum), first++, 0.5F);
        add(sum, more);
        gradients.push_back({name, tensor_of(what, more)});
      }
      add(of_x, product(of_y, w, samples, classes, inputs, false, true));
      add(of_w, product(x, of_y, inputs, samples, classes, true, false));
      const std::vector<NamedTensor> found = passes.backward(gradients);
      EXPECT_EQ(named(found, "x"), of_x);
      EXPECT_EQ(named(found, "w"), of_w);
    }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, AutogradOutputs,
    testing::Values(Row{"an_input", {{"x", "x"}}}, Row{"a_copy_of_an_input", {{"z", "x"}}}, Row{"two_copies", {{"z", "x"}, {"v", "x"}}},
                    Row{"an_input_and_a_copy", {{"x", "x"}, {"z", "x"}}}, Row{"a_weight", {{"w", "w"}}},
                    Row{"a_copy_of_a_weight", {{"z", "w"}}}, Row{"a_second_name", {{"z", "y"}}},
                    Row{"all_of_them", {{"x", "x"}, {"w", "w"}, {"z", "y"}}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
