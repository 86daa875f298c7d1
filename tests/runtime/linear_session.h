// Steps of the linear plan (plan_builder.h) on a fake backend, and what tests of sessions ask of them.
#pragma once
#include <gtest/gtest.h>

#include "runtime/session.h"
#include "tests/runtime/fake_backend.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {

// What f fails with; empty where it does not.
template <class F>
std::string failure(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not contain '" << part << "'";
}

struct Results {
  std::vector<float> loss, y;
};
// One step of the linear plan.
inline Results step(Session& session, std::size_t plan, const std::vector<float>& x, StepState state = {.learning_rate = 0.5}) {
  const Plan& p = session.plan(plan);
  Results r{std::vector<float>(p.devices.size(), -1), std::vector<float>(x.size(), -1)};
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data()), nullptr, nullptr};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(r.loss.data()), reinterpret_cast<std::byte*>(r.y.data())};
  session.run(plan, inputs, outputs, state);
  return r;
}
inline std::vector<float> floats(const Tensor& t) {
  return {t.values<float>().begin(), t.values<float>().end()};
}
inline std::vector<float> numbers(std::int64_t rows, std::int64_t columns) {
  std::vector<float> x(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  return x;
}
inline NamedTensor weights(std::vector<float> w) {
  return {"w", Tensor::of<float>({std::ssize(w)}, std::span<const float>(w))};
}

}  // namespace tandem::test
