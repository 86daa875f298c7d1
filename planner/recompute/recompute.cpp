#include "planner/recompute/recompute.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/option.h"
#include "base/pattern.h"
#include "base/spec.h"
#include "base/units.h"

namespace tandem {
namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}

// Seconds of a step, of one with micro-batches of what is done for each.
double seconds_of(const LoweredGraph& program) {
  double seconds = 0;
  for (const Step& s : program.steps)
    if (is_of_micro_batch(s.phase)) seconds += s.seconds;
  return seconds;
}

// Tries the chain's choice for one number of bytes after the other, until the plan keeps within its budget.
class Search {
 public:
  Search(const LoweredGraph& program, std::span<const std::size_t> losses, std::int64_t budget, const BytesOf& bytes_of)
      : activations_(program, losses), blocks_(blocks_of(activations_)), budget_(budget), bytes_of_(bytes_of), before_(bytes_of(program)),
        scratch_(std::max<std::int64_t>(0, budget - (before_.all - before_.scratch))),
        costs_(with_ways(activations_, blocks_)), chain_(costs_, scratch_) {
    best_.again.program = program;
    best_.again.kept = activations_.droppable_bytes();
    best_.activations = activations_.droppable_bytes();
    best_.bytes = before_.all;
    best_.reached = before_.all <= budget;
  }

  Recomputed run() {
    if (!best_.reached) {
      const double seconds = seconds_of(activations_.program());
      descend();
      best_.reached ? ascend() : take_fewest();
      best_.at_least = seconds > 0 && possible(scratch_) ? std::min(best_.share, chain_.seconds(scratch_) / seconds) : best_.share;
    }
    return std::move(best_);
  }

 private:
  bool possible(std::int64_t bytes) const { return std::isfinite(chain_.seconds(bytes)); }
  std::int64_t attempt(std::int64_t bytes) { return attempt(chain_, bytes); }

  // Returns the bytes by which the budget is missed.
  std::int64_t attempt(const BlockChain& chain, std::int64_t bytes) {
    Recomputed now{.again = run_again(activations_, blocks_, chain.actions(bytes)), .activations = best_.activations};
    const double seconds = seconds_of(activations_.program());
    now.share = seconds > 0 ? now.again.seconds / seconds : 0;
    now.bytes = bytes_of_(now.again.program).all;
    now.reached = now.bytes <= budget_;
    const std::int64_t missed = now.bytes - budget_;
    const bool better = now.reached ? !best_.reached || now.share < best_.share : !best_.reached && now.bytes < best_.bytes;
    if (better) best_ = std::move(now);
    return missed;
  }

  // Down to what is enough, by as much as the plan is too large.
  void descend() {
    constexpr int tries = 16;
    std::int64_t bytes = scratch_;
    for (int i = 0; i < tries && possible(bytes); ++i) {
      const std::int64_t missed = attempt(bytes);
      enough_ = bytes;
      if (missed <= 0) return;
      too_many_ = bytes;
      bytes -= std::max(missed, chain_.slot());
    }
    if (!possible(scratch_)) return;
    enough_ = fewest(chain_, too_many_);
    if (enough_ < too_many_) attempt(enough_);
  }

  // The fewest bytes for which a chain has a choice, as it has for `some`.
  static std::int64_t fewest(const BlockChain& chain, std::int64_t some) {
    std::int64_t none = -1;
    while (some - none > chain.slot()) {
      const std::int64_t half = none + (some - none) / 2;
      (std::isfinite(chain.seconds(half)) ? some : none) = half;
    }
    return some;
  }

  // Of a budget that is too small: what comes nearest to it, of a few choices that take about the fewest bytes.
  void take_fewest() {
    const BlockChain wide(costs_, before_.scratch);
    if (!std::isfinite(wide.seconds(before_.scratch))) return;
    const std::int64_t least = fewest(wide, before_.scratch);
    for (const double more : {1.0, 1.02, 1.05, 1.1, 1.2})
      attempt(wide, std::min(before_.scratch, static_cast<std::int64_t>(static_cast<double>(least) * more)));
  }

  // And up again, as far as the plan keeps within the budget.
  void ascend() {
    constexpr int tries = 5;
    for (int i = 0; i < tries && too_many_ - enough_ > chain_.slot(); ++i) {
      const std::int64_t half = enough_ + (too_many_ - enough_) / 2;
      (attempt(half) <= 0 ? enough_ : too_many_) = half;
    }
  }

  const Activations activations_;
  std::vector<Block> blocks_;
  const std::int64_t budget_;
  const BytesOf& bytes_of_;
  const ProgramBytes before_;
  const std::int64_t scratch_;  // bytes that the budget leaves for it
  const std::vector<ChainBlock> costs_;
  const BlockChain chain_;
  Recomputed best_;
  std::int64_t enough_ = 0, too_many_ = 0;
};

}  // namespace

MemoryBudget parse_memory_budget(std::string_view text) {
  MemoryBudget budget;
  const std::string name = option("memory_budget");
  if (text == "fit") {
    budget.fit = true;
  } else if (text.ends_with('%')) {
    budget.share = parse_number(text.substr(0, text.size() - 1), name) / 100;
    if (!(*budget.share > 0 && *budget.share <= 1))
      fail(ExitCode::usage, name, ": '", text, "', expected a share above 0% and up to 100%");
  } else {
    if (text.find_first_of("0123456789") != 0)
      fail(ExitCode::usage, name, ": '", text, "', expected fit, a share of the activations such as 50%, or a size such as 8GiB");
    for (const std::string& size : split(std::string(text), ',')) budget.bytes.push_back(parse_bytes(size, name));
  }
  return budget;
}

std::string to_string(const MemoryBudget& budget) {
  if (budget.fit) return "fit";
  if (budget.share) return concat(100 * *budget.share, '%');
  std::string text;
  for (const std::int64_t bytes : budget.bytes) text += concat(text.empty() ? "" : ",", bytes);
  return text;
}

std::string to_string(const Recomputed& r) {
  std::string text =
      concat(r.again.steps, r.again.steps == 1 ? " step runs again, " : " steps run again, ", percent(r.share), " more time");
  if (r.at_least > 0) text += concat(", at least ", percent(r.at_least));
  return concat(text, "; ", text_of_bytes(r.again.kept), " of ", text_of_bytes(r.activations), " of activations are kept");
}

Recomputed recompute_named(const LoweredGraph& program, std::span<const std::size_t> losses,
                           const std::function<bool(const Step&)>& named) {
  const Activations activations(program, losses);
  const auto is_named = [&](BufferId b) { return named(activations.step(activations.of(b).maker)); };
  std::vector<Block> blocks = blocks_of(activations, {.most = 16, .through = is_named});
  std::vector<ChainAction> actions;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<BufferId>& dropped = blocks[i].dropped.emplace_back();
    std::copy_if(blocks[i].inside.begin(), blocks[i].inside.end(), std::back_inserter(dropped), is_named);
    actions.push_back({ChainAction::What::keep, static_cast<int>(i)});
  }
  for (std::size_t i = blocks.size(); i-- > 0;) actions.push_back({ChainAction::What::backward, static_cast<int>(i)});
  Recomputed r{.again = run_again(activations, blocks, actions), .activations = activations.droppable_bytes()};
  if (const double seconds = seconds_of(program); seconds > 0) r.share = r.again.seconds / seconds;
  return r;
}

Recomputed recompute_within(const LoweredGraph& program, std::span<const std::size_t> losses, std::int64_t budget,
                            const BytesOf& bytes_of) {
  return Search(program, losses, budget, bytes_of).run();
}

std::int64_t budget_of_share(const LoweredGraph& program, std::span<const std::size_t> losses, double share, const BytesOf& bytes_of) {
  const auto activations = static_cast<double>(Activations(program, losses).droppable_bytes());
  return bytes_of(program).all - static_cast<std::int64_t>((1 - share) * activations);
}

}  // namespace tandem
