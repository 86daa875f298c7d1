// A step whose parts note when they begin and end.
#include <algorithm>
#include <chrono>

#include "runtime/program.h"

namespace tandem {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Notes when its stream comes to it. For devices whose kernels the host runs.
class Stamp final : public Kernel {
 public:
  void bind(std::span<std::byte* const>, std::span<std::byte* const>, std::byte*) override {}
  void run(StreamHandle) override { time = now(); }
  double time = 0;
};

}  // namespace

void Program::run_traced(const HostBuffers& host, std::span<double> begins, std::span<double> ends) {
  const Slot& slot = slots_[0];
  struct Traced {
    const Instruction* instruction;
    Stamp begin, end;
  };
  std::vector<Traced> traced;  // never moved once a stream knows it
  traced.reserve(staged_.size() + taken_.size() + instructions_.size());
  const auto run = [&](const Instruction& i) {
    Traced& t = traced.emplace_back(Traced{&i, {}, {}});
    const auto waited_for = [&] {
      t.begin.run({});
      execute(i, host, slot);
      i.stream->synchronize();
      t.end.run({});
    };
    if (ahead_) {
      i.channel < 0 ? waited_for() : alone(i, waited_for);
    } else {
      i.stream->launch(t.begin);
      execute(i, host, slot);
      i.stream->launch(t.end);
    }
  };
  if (group_) group_->begin_step(rank_);
  staging_.holder = nullptr;
  put_inputs(host.inputs, slot);
  for (const auto* list : {&staged_, &taken_, &instructions_}) each(*list, run);
  for (Stream* s : streams_) s->synchronize();
  get_outputs(host.outputs, slot);
  if (group_) group_->end_step(rank_);
  std::vector<bool> known(begins.size());
  for (const Traced& t : traced) {
    if (t.instruction->kind == Instruction::wait || t.instruction->kind == Instruction::record) continue;
    const auto s = at(t.instruction->step);
    begins[s] = known[s] ? std::min(begins[s], t.begin.time) : t.begin.time;
    ends[s] = known[s] ? std::max(ends[s], t.end.time) : t.end.time;
    known[s] = true;
  }
}

}  // namespace tandem
