#include "planner/recompute_programs.h"

#include <algorithm>
#include <set>

#include "base/option.h"
#include "base/suggest.h"
#include "base/units.h"
#include "planner/place/by_rules.h"
#include "planner/recompute/chunks.h"

namespace tandem {
namespace {

// What a pattern may name, with which of them have named something.
class Named {
 public:
  explicit Named(const CompileOptions& o) : o_(o), any_(o.memory.recompute.size()) {}

  bool operator()(const Step& step) {
    static const std::vector<std::string> none;
    bool named = false;
    for (const std::string& node : step.origin) {
      known_.insert(node);
      const auto modules = o_.modules.find(node);
      for (std::size_t p = 0; p < any_.size(); ++p)
        if (names(o_.memory.recompute[p], node, modules == o_.modules.end() ? none : modules->second)) any_[p] = named = true;
    }
    return named;
  }

  void check() const {
    const auto unused = std::ranges::find(any_, false);
    if (unused == any_.end()) return;
    const std::string& pattern = o_.memory.recompute[static_cast<std::size_t>(unused - any_.begin())];
    const std::string near = nearest(pattern, std::vector<std::string>(known_.begin(), known_.end()));
    fail(ExitCode::usage, option("recompute"), " '", pattern, "': no node of the forward pass has such a name, and no module",
         near.empty() ? "" : concat(", did you mean '", near, "'?"));
  }

 private:
  const CompileOptions& o_;
  std::vector<bool> any_;  // by pattern
  std::set<std::string> known_;
};

Recomputed within_budget(const ProgramToRecompute& p, const CompileOptions& o) {
  const std::int64_t bytes = budget_of(p, o);
  Recomputed r = recompute_chunks(*p.program, p.losses, bytes, p.bytes_of);
  if (!r.reached && !o.memory.budget->fit) refuse_budget(p, o, bytes, r.bytes);
  return r;
}

}  // namespace

bool has_budget(const CompileOptions& o) { return o.memory.budget && (o.memory.budget->share || !o.memory.budget->bytes.empty()); }

std::int64_t budget_of(const ProgramToRecompute& p, const CompileOptions& o) {
  const MemoryBudget& budget = *o.memory.budget;
  if (budget.share) return budget_of_share(*p.program, p.losses, *budget.share, p.bytes_of);
  return budget.bytes[budget.bytes.size() == 1 ? 0 : p.device];
}

void refuse_budget(const ProgramToRecompute& p, const CompileOptions& o, std::int64_t asked, std::int64_t smallest) {
  fail(ExitCode::device, "device ", o.devices[p.device].id, ": ", option("memory_budget"), " asks for a plan of ", text_of_bytes(asked),
       ", the smallest that was found takes ", text_of_bytes(smallest),
       o.parallel.micro_batches > 1 ? " for micro-batches of " : " for a batch of ", o.batch);
}

std::string recompute_programs(std::span<const ProgramToRecompute> programs, const CompileOptions& o) {
  const bool budget = has_budget(o);
  if (!budget && o.memory.recompute.empty()) return "";
  Named named(o);
  std::vector<Recomputed> all;
  for (const ProgramToRecompute& p : programs)
    all.push_back(budget ? within_budget(p, o) : recompute_named_chunks(*p.program, p.losses, std::ref(named)));
  named.check();
  for (std::size_t i = 0; i < programs.size(); ++i) *programs[i].program = std::move(all[i].again.program);
  // Of several, the one that takes the most time.
  return to_string(*std::ranges::max_element(all, {}, &Recomputed::share));
}

}  // namespace tandem
