// Learning rates over a run.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// Every schedule may start with a linear warm-up from 0 over `warmup` epochs; the rest then runs as if it began there.
struct Schedule {
  std::string name = "constant";  // constant, step, cosine
  double every = 10;              // step: epochs between reductions
  double factor = 0.1;            // step: what the rate is multiplied by
  double final_share = 0;         // cosine: last rate / first rate
  double warmup = 0;              // epochs
};

// constant | step[,every=10][,factor=0.1] | cosine[,final=0], each with [,warmup=EPOCHS]. Fails (usage).
Schedule parse_schedule(std::string_view text);

// The rate of a step (from 0) of `steps`, with `steps_per_epoch`.
double learning_rate(const Schedule& schedule, double base, std::int64_t step, std::int64_t steps, double steps_per_epoch);

}  // namespace tandem
