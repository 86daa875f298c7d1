#include "planner/recompute/offload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "planner/plan/format.h"

namespace tandem {
namespace {

constexpr std::string_view going = "offload/", coming = "fetch/";

// When steps begin that compute one behind the other, with the end of the last.
std::vector<double> begins_of(const Activations& a) {
  std::vector<double> begins{0};
  for (int s = 0; s < a.steps(); ++s) {
    const Step& step = a.step(s);
    begins.push_back(begins.back() + (step.stream == compute_stream ? step.seconds : 0));
  }
  return begins;
}

// Finds when each value goes and comes, in the order in which they are made: the first is read last.
class Finder {
 public:
  Finder(const Activations& a, const KeepersLink& link, bool all) : a_(a), link_(link), all_(all), begins_(begins_of(a)) {}

  std::vector<Away> run() {
    std::vector<Away> found;
    for (int s = 0; s < a_.turn(); ++s)
      for (const BufferId v : a_.made_by(s)) {
        const Activation& made = a_.of(v);
        if (!made.droppable() || made.bytes < least_bytes_away) continue;
        if (const std::optional<Away> away = link_.beside ? beside(v, made) : between(v, made)) found.push_back(*away);
      }
    return found;
  }

 private:
  double begin(int step) const { return begins_[at(step)]; }

  static int used(const Activation& made) { return std::max(made.maker, made.last_forward) + 1; }  // by the forward pass

  // Of a program with micro-batches: what goes in a phase of one has gone by its end, and what comes does not come before.
  bool same_phase(int a, int b) const { return a_.step(a).phase == a_.step(b).phase && a_.step(a).chunk == a_.step(b).chunk; }
  int end_of_phase(int step) const {
    int end = step + 1;
    while (end < a_.steps() && same_phase(step, end)) ++end;
    return end;
  }
  int begin_of_phase(int step) const {
    int begin = step;
    while (begin > 0 && same_phase(step, begin - 1)) --begin;
    return begin;
  }

  // The device does nothing else meanwhile.
  std::optional<Away> between(BufferId v, const Activation& made) const {
    const Away away{v, used(made), made.first_backward, made.first_backward};
    const bool pays = begin(away.fetched) - begin(away.sent) > 2 * link_.seconds(made.bytes);
    return pays && away.sent <= std::min(a_.turn(), end_of_phase(made.maker)) ? std::optional(away) : std::nullopt;
  }

  // The link moves one value at a time each way.
  std::optional<Away> beside(BufferId v, const Activation& made) {
    const double seconds = link_.seconds(made.bytes), gone = std::max(begin(made.maker + 1), free_) + seconds,
                 back = std::min(begin(made.first_backward), next_) - seconds;
    const auto first_from = [&](double time) { return static_cast<int>(std::ranges::lower_bound(begins_, time) - begins_.begin()); };
    const int last_until = first_from(std::nextafter(back, std::numeric_limits<double>::infinity())) - 1;
    Away away{v, std::max(used(made), first_from(gone)), std::clamp(last_until, 0, made.first_backward), made.first_backward};
    const int latest = std::min(a_.turn(), end_of_phase(made.maker)), earliest = std::max(a_.turn(), begin_of_phase(made.first_backward));
    if (all_) {
      away.sent = std::min(away.sent, latest);
      away.fetched = std::max(away.fetched, earliest);
    }
    if (away.sent > latest || away.fetched < earliest || away.sent < used(made)) return std::nullopt;
    free_ = gone;
    next_ = back;
    return away;
  }

  const Activations& a_;
  const KeepersLink& link_;
  const bool all_;
  const std::vector<double> begins_;                       // by step, and the end
  double free_ = 0;                                        // when what was sent before has gone
  double next_ = std::numeric_limits<double>::infinity();  // when what comes later begins to
};

class Rewriter {
 public:
  Rewriter(const Activations& a, std::span<const KeptBy> pairs, bool beside)
      : a_(a), beside_(beside), phased_(!a.program().steps.empty() && a.program().steps.back().phase != Phase::forward) {
    for (const KeptBy& pair : pairs) {
      out_.insert(out_.end(), {pair.device, pair.keeper});
      back_.insert(back_.end(), {pair.keeper, pair.device});
    }
    to_ = a.program();
    to_.steps.clear();
    to_.in_place.clear();
    to_.ordered = true;
  }

  LoweredGraph run(std::span<const Away> away) {
    for (const Away& v : away) {
      sent_[v.sent].push_back(&v);
      fetched_[v.fetched].push_back(&v);
    }
    for (auto& [step, list] : fetched_) std::ranges::stable_sort(list, {}, &Away::first_read);
    for (int s = 0; s < a_.steps(); ++s) {
      for (const Away* v : sent_[s]) send(*v);
      for (const Away* v : fetched_[s]) fetch(*v);
      Step step = a_.step(s);
      now_.push_back(static_cast<int>(to_.steps.size()));
      for (StepId& w : step.waits) w.index = now_[at(w.index)];
      if (step.stream == compute_stream) step.waits.insert(step.waits.end(), gone_.begin(), gone_.end()), gone_.clear();
      for (BufferId& in : step.inputs)
        if (in.present()) in = seen(in);
      add(std::move(step), a_.program().in_place[at(s)]);
    }
    return std::move(to_);
  }

 private:
  void add(Step step, std::vector<std::pair<int, int>> in_place = {}) {
    to_.steps.push_back(std::move(step));
    to_.in_place.push_back(std::move(in_place));
  }

  void send(const Away& v) {
    Step step = exchange(v, going, out_, offload_stream);
    step.inputs = {v.value};
    if (beside_ && !phased_) gone_.push_back({static_cast<int>(to_.steps.size())});
    add(std::move(step));
  }

  void fetch(const Away& v) {
    Step step = exchange(v, coming, back_, fetch_stream);
    Buffer copy = a_.program().buffers[v.value];
    copy.name += " (back)";
    step.outputs = {to_.buffers.add(std::move(copy))};
    back_in_[v.value] = step.outputs[0];
    step.phase = a_.step(v.first_read).phase;
    step.chunk = a_.step(v.first_read).chunk;
    add(std::move(step));
  }

  Step exchange(const Away& v, std::string_view way, const std::vector<int>& devices, int stream) {
    const Buffer& b = a_.program().buffers[v.value];
    const Step& maker = a_.step(a_.of(v.value).maker);
    Exchange e{.kind = ExchangeKind::send, .name = concat(way, v.value.index, ' ', b.name, " of ", std::min(devices[0], devices[1]))};
    e.devices = devices;
    e.rows = static_cast<int>(devices.size() / 2);
    e.dtype = b.operand.dtype;
    e.elements = b.operand.bytes() / static_cast<std::int64_t>(size_of(e.dtype));
    Step step{.what = ExchangeStep{to_.exchanges.add(std::move(e))}, .origin = maker.origin};
    step.stream = beside_ ? stream : compute_stream;
    step.phase = maker.phase;
    step.chunk = maker.chunk;
    return step;
  }

  // The buffer by which a step knows a value, in the memory into which that came back.
  BufferId seen(BufferId b) {
    const auto back = back_in_.find(a_.root(b));
    if (back == back_in_.end()) return b;
    if (b == back->first) return back->second;
    const auto [known, fresh] = views_.try_emplace(b);
    if (fresh) {
      Buffer view = a_.program().buffers[b];
      view.alias = seen(view.alias);
      known->second = to_.buffers.add(std::move(view));
    }
    return known->second;
  }

  const Activations& a_;
  const bool beside_, phased_;   // waits of micro-batches follow when the schedule is written out
  std::vector<int> out_, back_;  // devices of exchanges
  LoweredGraph to_;
  std::map<int, std::vector<const Away*>> sent_, fetched_;  // by step
  std::vector<StepId> gone_;                                // what the next step that computes waits for
  std::vector<int> now_;                                    // by step: its number
  std::map<BufferId, BufferId> back_in_;
  std::map<BufferId, BufferId> views_;
};

}  // namespace

std::vector<Away> kept_elsewhere(const Activations& activations, const KeepersLink& link, bool all) {
  return Finder(activations, link, all).run();
}

LoweredGraph with_away(const Activations& activations, std::span<const Away> away, std::span<const KeptBy> pairs, bool beside) {
  return Rewriter(activations, pairs, beside).run(away);
}

bool moves_activations(const Exchange& e) {
  return e.name.starts_with(going) || e.name.starts_with(coming);
}

void keep_activations(LoweredGraph& keeper, const LoweredGraph& sender) {
  std::map<std::string_view, std::size_t> own;  // by exchange: the keeper's step
  for (std::size_t s = 0; s < keeper.steps.size(); ++s)
    if (const auto* e = keeper.steps[s].as<ExchangeStep>()) own.emplace(keeper.exchanges[e->exchange].name, s);
  std::vector<std::vector<Step>> behind(keeper.steps.size() + 1);  // by step, the first: before all
  std::map<std::string_view, BufferId> kept;
  std::size_t last = 0;
  LoweredGraph to = keeper;
  for (const Step& s : sender.steps) {
    const auto* e = s.as<ExchangeStep>();
    if (!e) continue;
    const Exchange& exchange = sender.exchanges[e->exchange];
    if (const auto common = own.find(exchange.name); common != own.end()) last = std::max(last, common->second + 1);
    if (!moves_activations(exchange)) continue;
    const bool goes = exchange.name.starts_with(going);
    const std::string_view value = std::string_view(exchange.name).substr((goes ? going : coming).size());
    Step step{.what = ExchangeStep{to.exchanges.add(Exchange(exchange))}, .origin = s.origin};
    step.phase = s.phase;
    step.chunk = s.chunk;
    if (goes) {
      Buffer b = sender.buffers[s.inputs[0]];
      b.alias = {};
      step.outputs = {kept[value] = to.buffers.add(std::move(b))};
    } else {
      step.inputs = {kept.at(value)};
    }
    behind[last].push_back(std::move(step));
  }
  to.steps.clear();
  to.in_place.clear();
  for (std::size_t s = 0; s < behind.size(); ++s) {
    if (s > 0) {
      to.steps.push_back(std::move(keeper.steps[s - 1]));
      to.in_place.push_back(std::move(keeper.in_place[s - 1]));
    }
    for (Step& step : behind[s]) {
      to.steps.push_back(std::move(step));
      to.in_place.emplace_back();
    }
  }
  keeper = std::move(to);
}

}  // namespace tandem
