#include "planner/recompute/run_again.h"

#include <algorithm>
#include <map>
#include <set>

namespace tandem {
namespace {

class Rewriter {
 public:
  Rewriter(const Activations& a, const std::vector<Block>& blocks) : a_(a), blocks_(blocks), there_(a.program().buffers.size()) {
    out_.program = a.program();
    out_.program.steps.clear();
    out_.program.in_place.clear();
    for (BufferId b{0}; b.index < std::ssize(there_); ++b.index) latest_.push_back(b);
    for (int s = 0; s < a.turn(); ++s) add(s, a.step(s));
    next_ = a.turn();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (int s = blocks[i].begin; s < blocks[i].end; ++s)
        for (const BufferId b : a.made_by(s)) block_of_[b] = static_cast<int>(i);
  }

  RunAgain run(const std::vector<ChainAction>& actions) {
    using What = ChainAction::What;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const ChainAction& action = actions[i];
      const bool last = i + 1 < actions.size() && actions[i + 1].what == What::backward;  // nothing runs behind it first
      switch (action.what) {
        case What::keep: keep(action, last); break;
        case What::advance: advance(action); break;
        case What::backward: backward(action.block); break;
        case What::leave:
          there_ = std::move(before_.back());
          before_.pop_back();
          break;
      }
    }
    drop_unread();
    count_kept();
    out_.program.seconds = 0;
    for (const Step& s : out_.program.steps) out_.program.seconds += s.seconds;
    out_.seconds = out_.program.seconds - a_.program().seconds;
    return std::move(out_);
  }

 private:
  using There = IdVector<BufferId, BufferId>;  // by root of what can be computed again: where it lies now; absent: nowhere

  void add(int original, Step step) {
    out_.program.steps.push_back(std::move(step));
    out_.program.in_place.push_back(a_.program().in_place[at(original)]);
  }

  // A block's values, and what enters the next one, which runs before this one's backward pass unless it is the last.
  void keep(const ChainAction& action, bool last) {
    const Block& block = blocks_[at(action.block)];
    std::set<BufferId> wanted(block.inside.begin(), block.inside.end());
    for (const BufferId b : block.dropped[at(action.way)]) wanted.erase(b);
    if (!last) {
      const auto& next = blocks_[at(action.block) + 1].crossing;
      wanted.insert(next.begin(), next.end());
    }
    provide(wanted, action.again);
  }

  void advance(const ChainAction& action) {
    before_.push_back(there_);
    const auto& wanted = blocks_[at(action.block)].crossing;
    provide({wanted.begin(), wanted.end()}, action.again);
  }

  // What was there, and these, are there behind it; what else is made on the way is not.
  void provide(const std::set<BufferId>& wanted, bool again) {
    There now = there_;
    if (again) make({wanted.begin(), wanted.end()});
    for (const BufferId b : wanted)
      if (!now[b].present()) now[b] = again ? there_[b] : b;
    there_ = std::move(now);
  }

  void backward(int b) {
    const Block& block = blocks_[at(b)];
    if (at(b) + 1 < blocks_.size())  // nothing keeps it any longer
      for (const BufferId v : blocks_[at(b) + 1].entering)
        if (!a_.of(v).droppable()) there_[v] = {};
    for (int s = block.backward_begin; s < block.backward_end; ++s) {
      next_ = s;
      std::vector<BufferId> wanted;
      for (const BufferId v : a_.read_by(s))
        if (block_of_.at(v) <= b) wanted.push_back(v);
      make(std::move(wanted));
      Step step = a_.step(s);
      if (!a_.updates(s)) use_latest(step);
      add(s, std::move(step));
    }
    next_ = std::min(block.backward_end, a_.backward_end() - 1);
  }

  // Runs the steps again that make these, and what they read, as far as it is not there.
  void make(std::vector<BufferId> open) {
    std::set<int> steps;
    while (!open.empty()) {
      const BufferId b = open.back();
      open.pop_back();
      if (there_[b].present()) {
        latest_[b] = there_[b];
        continue;
      }
      const int maker = a_.of(b).maker;
      if (!steps.insert(maker).second) continue;
      open.insert(open.end(), a_.read_by(maker).begin(), a_.read_by(maker).end());
    }
    for (const int s : steps) repeat(s);
  }

  void repeat(int s) {
    Step step = a_.step(s);
    use_latest(step);
    step.phase = a_.step(next_).phase;
    step.chunk = a_.step(next_).chunk;
    for (BufferId& out : step.outputs) {
      if (!out.present()) continue;
      const BufferId root = a_.root(out);
      Buffer copy = a_.program().buffers[root];
      copy.name += " (again)";
      there_[root] = latest_[root] = out_.program.buffers.add(std::move(copy));
      out = seen(out);
    }
    if (step.workspace.present()) step.workspace = out_.program.buffers.add(Buffer(a_.program().buffers[step.workspace]));
    ++out_.steps;
    add(s, std::move(step));
  }

  void use_latest(Step& step) {
    for (BufferId& in : step.inputs)
      if (in.present() && a_.of(a_.root(in)).repeats) in = seen(in);
  }

  // The buffer by which a step knows a value, in the memory where that was made last.
  BufferId seen(BufferId b) {
    const BufferId root = a_.root(b), now = latest_[root];
    if (now == root) return b;
    if (b == root) return now;
    const auto [known, fresh] = views_.try_emplace({b, now});
    if (fresh) {
      Buffer view = a_.program().buffers[b];
      view.alias = seen(view.alias);
      known->second = out_.program.buffers.add(std::move(view));
    }
    return known->second;
  }

  // Steps of the forward pass whose results nothing reads any more.
  void drop_unread() {
    LoweredGraph& p = out_.program;
    IdVector<BufferId, bool> read(p.buffers.size());
    for (std::size_t s = p.steps.size(); s-- > 0;) {
      const bool forward = s < at(a_.turn()) && !a_.made_by(static_cast<int>(s)).empty();
      const bool unread = forward && std::none_of(p.steps[s].outputs.begin(), p.steps[s].outputs.end(),
                                                  [&](BufferId b) { return b.present() && read[root_of(p.buffers, b)]; });
      if (unread) {
        p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(s));
        p.in_place.erase(p.in_place.begin() + static_cast<std::ptrdiff_t>(s));
        ++dropped_;
        continue;
      }
      for (const BufferId in : p.steps[s].inputs)
        if (in.present()) read[root_of(p.buffers, in)] = true;
    }
    out_.steps -= dropped_;
  }

  void count_kept() {
    std::set<BufferId> kept;
    const LoweredGraph& p = out_.program;
    for (std::size_t s = at(a_.turn() - dropped_); s < p.steps.size(); ++s)
      for (const BufferId in : p.steps[s].inputs)
        if (in.present() && !is_update(p, p.steps[s]))
          if (const BufferId root = root_of(p.buffers, in); root.index < std::ssize(there_) && a_.of(root).repeats) kept.insert(root);
    for (const BufferId b : kept) out_.kept += a_.of(b).bytes;
  }

  const Activations& a_;
  const std::vector<Block>& blocks_;
  RunAgain out_;
  There there_;
  std::vector<There> before_;            // what was there when each `advance` began that is not left yet
  There latest_;                         // by root: where it was made last
  std::map<BufferId, int> block_of_;     // in which it is made
  std::map<std::pair<BufferId, BufferId>, BufferId> views_;  // by view and memory
  int next_ = 0;  // step of the backward pass that comes next
  int dropped_ = 0;
};

}  // namespace

RunAgain run_again(const Activations& activations, const std::vector<Block>& blocks, const std::vector<ChainAction>& actions) {
  return Rewriter(activations, blocks).run(actions);
}

}  // namespace tandem
