#include "tests/fuzz/small_run.h"

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"

namespace tandem::fuzz {

std::string small_model_bytes() {
  test::Model m;
  m.input("x", "N,4").output("y");
  m.add(test::filled_tensor("w", {4, 3})).add(test::filled_tensor("b", {3}, 0.1F));
  m.add(test::node("Gemm", {"x", "w", "b"}, {"y"}));
  return m.bytes();
}

SmallRun::SmallRun(std::filesystem::path folder) : folder_(std::move(folder)), model_(ModelFile::parse(small_model_bytes(), {})) {
  static const Backend* const backends[] = {&cpu_backend()};
  ModelOptions options{.init = "he-normal"};
  options.plan.batch = 4;
  options.plan.devices = {{{"cpu", 0}}};
  options.plan.optimizer = optimizer_defaults("adam");
  model_.compile(options, backends);
  data_ = open_data("random,samples=7", model_.data_request());
  model_.fit(*data_.train, this->options(3, false));
}

FitOptions SmallRun::options(std::int64_t steps, bool resume) const {
  return {.epochs = 0,
          .steps = steps,
          .learning_rate = 0.01,
          .validation = data_.train.get(),
          .run_dir = folder_,
          .resume = resume,
          .checkpoint_steps = 1};
}

void SmallRun::go_on() {
  model_.fit(*data_.train, options(steps, true));
}

}  // namespace tandem::fuzz
