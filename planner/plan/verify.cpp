// What must hold of a plan before it runs. Nothing here trusts an index: a hostile file comes through here too.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "planner/plan/format.h"

namespace tandem {
namespace {

class Breaches {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (++count_ <= shown) text_ += concat("\n  ", parts...);
  }
  void raise(const Plan& plan) const {
    if (count_ == 0) return;
    const std::string rest = count_ > shown ? concat("\n  and ", count_ - shown, " more") : std::string();
    fail(ExitCode::usage, "plan of '", plan.model, "' breaks ", count_, count_ == 1 ? " rule:" : " rules:", text_, rest);
  }

 private:
  static constexpr std::size_t shown = 100;
  std::size_t count_ = 0;
  std::string text_;
};

// Bytes of memory within an arena.
struct Range {
  ArenaKind arena;
  std::int64_t begin, end;
};
bool overlap(const Range& a, const Range& b) { return a.arena == b.arena && a.begin < b.end && b.begin < a.end; }

std::string shown(const std::string& name) { return name.size() <= 80 ? name : name.substr(0, 77) + "..."; }

class DeviceVerifier {
 public:
  DeviceVerifier(const Plan& plan, const DevicePlan& device, Breaches& breaches)
      : plan_(plan), device_(device), breaches_(breaches), where_(to_string(device.device)) {}

  void run() {
    if (!check_arenas()) return;
    const bool buffers = check_buffers();
    const bool steps = check_steps();
    check_parameters();
    if (!buffers || !steps) return;  // what follows walks them
    check_lives();
    check_accesses();
  }

 private:
  std::string name(int buffer) const { return concat("buffer ", buffer, " '", shown(device_.buffers[static_cast<std::size_t>(buffer)].name), "'"); }
  std::string name_step(std::size_t s) const {
    const Step& step = device_.steps[s];
    return concat("step ", s, " (", step.kind == StepKind::launch ? shown(step.op) : std::string(name_of(step.kind)), ")");
  }
  const Buffer& at(BufferId id) const { return device_.buffers[static_cast<std::size_t>(id.index)]; }
  bool exists(BufferId id) const { return id.index >= 0 && id.index < static_cast<int>(device_.buffers.size()); }
  std::int64_t arena_bytes(ArenaKind k) const { return device_.arenas[static_cast<std::size_t>(k)].bytes; }
  template <class... Parts>
  void breach(const Parts&... parts) {
    breaches_.add(where_, ": ", parts...);
    sound_ = false;
  }

  bool check_arenas() {
    bool right = device_.arenas.size() == std::size(arena_kinds);
    for (std::size_t i = 0; right && i < std::size(arena_kinds); ++i) right = device_.arenas[i].kind == arena_kinds[i];
    if (!right) {
      breach("arenas are not parameters, optimizer, gradients, scratch, constants");
      return false;
    }
    for (const Arena& a : device_.arenas) {
      if (a.bytes < 0 || a.bytes > std::int64_t{1} << 56 || a.bytes % plan_alignment != 0)
        breach("arena ", name_of(a.kind), " has ", a.bytes, " bytes, expected a multiple of ", plan_alignment);
      if (a.lower_bound < 0 || a.lower_bound > a.bytes)
        breach("arena ", name_of(a.kind), ": lower bound ", a.lower_bound, " is outside 0 to ", a.bytes);
    }
    return true;
  }

  bool check_buffers() {
    sound_ = true;
    const int steps = static_cast<int>(device_.steps.size());
    for (int i = 0; i < static_cast<int>(device_.buffers.size()); ++i) {
      const Buffer& b = device_.buffers[static_cast<std::size_t>(i)];
      if (const std::string reason = problem_of(b.operand); !reason.empty()) {
        breach(name(i), ": ", reason);
        continue;
      }
      if (b.offset < 0 || b.offset % plan_alignment != 0) breach(name(i), " lies at ", b.offset, ", expected a multiple of ", plan_alignment);
      if (b.bytes < b.operand.bytes() || b.bytes % plan_alignment != 0)
        breach(name(i), " has ", b.bytes, " bytes, expected a multiple of ", plan_alignment, " that holds ", b.operand.bytes());
      if (b.offset > arena_bytes(b.arena) || b.bytes > arena_bytes(b.arena) - b.offset)
        breach(name(i), " ends at ", b.offset, "+", b.bytes, ", past arena ", name_of(b.arena), "'s ", arena_bytes(b.arena), " bytes");
      if (b.arena == ArenaKind::scratch && (b.first.index < 0 || b.last < b.first || b.last.index >= steps))
        breach(name(i), " lives from step ", b.first.index, " to ", b.last.index, " of ", steps);
      if (b.alias.index < -1 || b.alias.index >= static_cast<int>(device_.buffers.size()) || b.alias.index == i)
        breach(name(i), " shares buffer ", b.alias.index, ", which does not exist");
      if (b.constant) {
        const TensorType type{b.operand.dtype, b.operand.shape};
        if (b.constant->type() != type) breach(name(i), " of ", type, " has a constant of ", b.constant->type());
        if (b.arena != ArenaKind::constants) breach(name(i), " is a constant in arena ", name_of(b.arena), ", expected constants");
        if (b.operand.layout.opaque()) breach(name(i), " is a constant with layout ", b.operand.layout);
      }
    }
    return find_roots() && sound_;
  }

  // root_[i]: the buffer whose memory buffer i shares, itself where it has its own.
  bool find_roots() {
    const int n = static_cast<int>(device_.buffers.size());
    root_.assign(static_cast<std::size_t>(n), -2);
    for (int i = 0; i < n && sound_; ++i) {
      std::vector<int> chain;
      int b = i;
      while (root_[static_cast<std::size_t>(b)] == -2) {
        root_[static_cast<std::size_t>(b)] = -1;  // on the chain
        chain.push_back(b);
        const int next = device_.buffers[static_cast<std::size_t>(b)].alias.index;
        if (next < 0) {
          root_[static_cast<std::size_t>(b)] = b;
          break;
        }
        b = next;
      }
      if (root_[static_cast<std::size_t>(b)] == -1) {
        breach(name(i), " shares memory with itself");
        return false;
      }
      for (const int c : chain) root_[static_cast<std::size_t>(c)] = root_[static_cast<std::size_t>(b)];
    }
    for (int i = 0; i < n && sound_; ++i) {
      const Buffer& b = device_.buffers[static_cast<std::size_t>(i)];
      const Buffer& r = device_.buffers[static_cast<std::size_t>(root_[static_cast<std::size_t>(i)])];
      if (b.arena != r.arena || b.offset < r.offset || b.offset + b.bytes > r.offset + r.bytes)
        breach(name(i), " lies outside ", name(root_[static_cast<std::size_t>(i)]), " whose memory it shares");
    }
    return sound_;
  }

  bool check_steps() {
    sound_ = true;
    for (std::size_t s = 0; s < device_.steps.size(); ++s) {
      const Step& step = device_.steps[s];
      const auto operand = [&](BufferId id, bool optional) {
        if (!exists(id) && !(optional && id.index == -1)) breach(name_step(s), " names buffer ", id.index, ", which does not exist");
      };
      for (const BufferId id : step.inputs) operand(id, step.kind == StepKind::launch);
      for (const BufferId id : step.outputs) operand(id, step.kind == StepKind::launch);
      operand(step.workspace, true);
      if (step.stream < 0 || step.stream >= plan_streams) breach(name_step(s), " runs on stream ", step.stream, ", expected 0 to ", plan_streams - 1);
      for (const StepId w : step.waits)
        if (w.index < 0 || w.index >= static_cast<int>(s)) breach(name_step(s), " waits for step ", w.index, ", which is not issued before it");
    }
    if (!sound_) return false;
    for (std::size_t s = 0; s < device_.steps.size(); ++s) check_kind(s);
    return sound_;
  }

  void check_kind(std::size_t s) {
    const Step& step = device_.steps[s];
    const auto counts = [&](std::size_t inputs, std::size_t outputs) {
      if (step.inputs.size() == inputs && step.outputs.size() == outputs) return true;
      breach(name_step(s), " has ", step.inputs.size(), " inputs and ", step.outputs.size(), " outputs, expected ", inputs, " and ", outputs);
      return false;
    };
    switch (step.kind) {
      case StepKind::launch:
        if (step.op.empty() || step.kernel.empty()) breach(name_step(s), " names no operator or no kernel");
        break;
      case StepKind::slice:
        if (!counts(0, 1)) break;
        if (step.host < 0 || step.host >= static_cast<int>(plan_.inputs.size())) {
          breach(name_step(s), " reads input ", step.host, " of ", plan_.inputs.size());
          break;
        }
        {
          const HostInput& input = plan_.inputs[static_cast<std::size_t>(step.host)];
          check_host(s, input.name, input.type, input.batched, step.outputs[0]);
        }
        break;
      case StepKind::concat:
        if (!counts(1, 0)) break;
        if (step.host < 0 || step.host >= static_cast<int>(plan_.outputs.size())) {
          breach(name_step(s), " writes output ", step.host, " of ", plan_.outputs.size());
          break;
        }
        {
          const HostOutput& output = plan_.outputs[static_cast<std::size_t>(step.host)];
          check_host(s, output.name, output.type, output.combine == Combine::rows, step.inputs[0]);
        }
        break;
      case StepKind::all_reduce: {
        if (step.outputs.size() != 1 || step.inputs.size() > 1) {
          breach(name_step(s), " has ", step.inputs.size(), " inputs and ", step.outputs.size(), " outputs, expected one buffer in place");
          break;
        }
        if (step.bucket < 0 || step.bucket >= static_cast<int>(plan_.buckets.size())) {
          breach(name_step(s), " names bucket ", step.bucket, " of ", plan_.buckets.size());
          break;
        }
        const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(step.bucket)];
        const Buffer& b = at(step.outputs[0]);
        if (step.inputs.size() == 1 && (at(step.inputs[0]).arena != b.arena || at(step.inputs[0]).offset != b.offset))
          breach(name_step(s), " reads another buffer than it writes");
        const std::int64_t held = b.bytes / static_cast<std::int64_t>(size_of(b.operand.dtype));
        if (bucket.dtype != b.operand.dtype || bucket.elements < 0 || bucket.elements > held)
          breach(name_step(s), " sums ", bucket.elements, " ", bucket.dtype, " values in ", name(step.outputs[0].index), " of ", b.operand);
        break;
      }
    }
  }

  // A buffer that holds this device's part of a host tensor.
  void check_host(std::size_t s, const std::string& host, const TensorType& type, bool rows, BufferId id) {
    const Buffer& b = at(id);
    Shape wanted = type.shape;
    if (rows && wanted.rank() > 0) wanted[0] = device_.slice_size;
    if (b.operand.dtype != type.dtype || b.operand.shape != wanted || !b.operand.layout.is_row_major())
      breach(name_step(s), ": ", name(id.index), " is ", b.operand, ", but '", shown(host), "' has ", TensorType{type.dtype, wanted}, " here, row-major");
  }

  void check_parameters() {
    std::map<std::pair<ArenaKind, std::int64_t>, std::pair<std::int64_t, const PlanParameter*>> placed;
    for (const PlanParameter& p : plan_.parameters) {
      if (!problem_of(p.operand).empty()) continue;  // said once for the whole plan
      if (p.offset < 0 || p.offset % plan_alignment != 0 || p.offset > arena_bytes(p.arena) || p.operand.bytes() > arena_bytes(p.arena) - p.offset) {
        breach("parameter '", shown(p.name), "' lies at ", p.offset, "+", p.operand.bytes(), ", outside arena ", name_of(p.arena), "'s ", arena_bytes(p.arena), " bytes");
        continue;
      }
      if (p.operand.bytes() == 0) continue;
      const auto [it, fresh] = placed.try_emplace({p.arena, p.offset}, p.operand.bytes(), &p);
      const auto clash = [&](const PlanParameter& other) { breach("parameter '", shown(p.name), "' overlaps parameter '", shown(other.name), "'"); };
      if (!fresh) {
        clash(*it->second.second);
        continue;
      }
      const auto after = std::next(it);
      if (after != placed.end() && after->first.first == p.arena && after->first.second < p.offset + p.operand.bytes()) clash(*after->second.second);
      if (it != placed.begin()) {
        const auto before = std::prev(it);
        if (before->first.first == p.arena && before->first.second + before->second.first > p.offset) clash(*before->second.second);
      }
    }
  }

  // No two buffers with memory of their own share bytes while both live. Persistent arenas live always.
  void check_lives() {
    const std::size_t n = device_.buffers.size();
    const int steps = static_cast<int>(device_.steps.size());
    struct Life {
      int first, last;
    };
    std::vector<Life> life(n, {steps, -1});
    for (std::size_t i = 0; i < n; ++i) {
      const Buffer& b = device_.buffers[i];
      Life& l = life[static_cast<std::size_t>(root_[i])];
      const bool scratch = b.arena == ArenaKind::scratch;
      l.first = std::min(l.first, scratch ? b.first.index : 0);
      l.last = std::max(l.last, scratch ? b.last.index : steps - 1);
    }
    std::vector<std::vector<int>> begins(static_cast<std::size_t>(steps)), ends(static_cast<std::size_t>(steps));
    for (std::size_t i = 0; i < n; ++i) {
      if (root_[i] != static_cast<int>(i) || device_.buffers[i].bytes == 0 || steps == 0) continue;
      begins[static_cast<std::size_t>(life[i].first)].push_back(static_cast<int>(i));
      ends[static_cast<std::size_t>(life[i].last)].push_back(static_cast<int>(i));
    }
    std::map<std::pair<ArenaKind, std::int64_t>, int> live;  // by place
    const auto place = [&](int b) { return std::pair(device_.buffers[static_cast<std::size_t>(b)].arena, device_.buffers[static_cast<std::size_t>(b)].offset); };
    const auto range = [&](int b) {
      const Buffer& buffer = device_.buffers[static_cast<std::size_t>(b)];
      return Range{buffer.arena, buffer.offset, buffer.offset + buffer.bytes};
    };
    for (int s = 0; s < steps; ++s) {
      for (const int b : begins[static_cast<std::size_t>(s)]) {
        const auto clash = [&](int other) { breach(name(b), " and ", name(other), " share memory and both live at step ", s); };
        const auto [it, fresh] = live.try_emplace(place(b), b);
        if (!fresh) {
          clash(it->second);
          continue;
        }
        if (const auto after = std::next(it); after != live.end() && overlap(range(after->second), range(b))) clash(after->second);
        if (it != live.begin() && overlap(range(std::prev(it)->second), range(b))) clash(std::prev(it)->second);
      }
      for (const int b : ends[static_cast<std::size_t>(s)])
        if (const auto it = live.find(place(b)); it != live.end() && it->second == b) live.erase(it);
    }
  }

  // Replays the steps over the memory: a step reads only what was written (or is loaded, or starts as zero), and steps
  // of different streams that touch the same bytes, one of them writing, are ordered by waits.
  void check_accesses() {
    order_streams();
    seed_memory();
    for (std::size_t s = 0; s < device_.steps.size(); ++s) {
      const Step& step = device_.steps[s];
      for (const BufferId id : step.inputs)
        if (id.present()) read(s, id, step.kind != StepKind::all_reduce);
      if (step.kind == StepKind::all_reduce) read(s, step.outputs[0], false);
      for (const BufferId id : step.outputs)
        if (id.present()) write(s, id);
      if (step.workspace.present()) write(s, step.workspace);
    }
  }

  // done_[s][q]: the last step of stream q that has ended when step s starts, -1 for none.
  void order_streams() {
    done_.assign(device_.steps.size(), {-1, -1, -1});
    std::array<int, plan_streams> last{-1, -1, -1};
    for (std::size_t s = 0; s < device_.steps.size(); ++s) {
      const auto join = [&](int before) {
        if (before < 0) return;
        for (std::size_t q = 0; q < plan_streams; ++q)
          done_[s][q] = std::max(done_[s][q], done_[static_cast<std::size_t>(before)][q]);
        int& own = done_[s][static_cast<std::size_t>(device_.steps[static_cast<std::size_t>(before)].stream)];
        own = std::max(own, before);
      };
      int& previous = last[static_cast<std::size_t>(device_.steps[s].stream)];
      join(previous);
      for (const StepId w : device_.steps[s].waits) join(w.index);
      previous = static_cast<int>(s);
    }
  }
  bool ended(int before, std::size_t s) const {
    return before < 0 || done_[s][static_cast<std::size_t>(device_.steps[static_cast<std::size_t>(before)].stream)] >= before;
  }

  static constexpr int never = -2, loaded = -1;
  struct Piece {  // of an arena, up to the next piece
    int writer = never;
    std::array<int, plan_streams> readers{-1, -1, -1};  // last of each stream since the write
  };
  using Memory = std::map<std::int64_t, Piece>;

  void seed_memory() {
    for (const ArenaKind k : arena_kinds) {
      Memory& memory = memory_[static_cast<std::size_t>(k)];
      memory.clear();
      // Optimizer state and gradients start as zero.
      memory[0].writer = k == ArenaKind::optimizer || k == ArenaKind::gradients ? loaded : never;
      split(memory, arena_bytes(k));
    }
    for (const PlanParameter& p : plan_.parameters)
      if (problem_of(p.operand).empty() && p.offset >= 0 && p.offset <= arena_bytes(p.arena)) load({p.arena, p.offset, std::min(p.offset + p.operand.bytes(), arena_bytes(p.arena))});
    for (const Buffer& b : device_.buffers)
      if (b.constant) load({b.arena, b.offset, b.offset + b.operand.bytes()});
  }
  void load(const Range& r) {
    for_each_piece(r, [](Piece& p) { p.writer = loaded; });
  }
  static Memory::iterator split(Memory& memory, std::int64_t at) {
    const auto it = std::prev(memory.upper_bound(at));
    return it->first == at ? it : memory.emplace_hint(std::next(it), at, it->second);
  }
  template <class F>
  void for_each_piece(const Range& r, F&& f) {
    if (r.begin >= r.end) return;
    Memory& memory = memory_[static_cast<std::size_t>(r.arena)];
    auto it = split(memory, r.begin);
    const auto end = split(memory, r.end);
    it = memory.find(r.begin);
    for (; it != end; ++it) f(it->second);
  }
  Range touched(BufferId id) const { return {at(id).arena, at(id).offset, at(id).offset + at(id).operand.bytes()}; }

  void check_alive(std::size_t s, BufferId id) {
    const Buffer& b = at(id);
    const int step = static_cast<int>(s);
    if (b.arena == ArenaKind::scratch && (step < b.first.index || step > b.last.index))
      breach(name_step(s), " uses ", name(id.index), " outside its life, steps ", b.first.index, " to ", b.last.index);
  }
  void read(std::size_t s, BufferId id, bool whole) {
    check_alive(s, id);
    bool unwritten = false;
    int unordered = -1;
    for_each_piece(touched(id), [&](Piece& p) {
      unwritten = unwritten || (whole && p.writer == never);
      if (!ended(p.writer, s)) unordered = p.writer;
      p.readers[static_cast<std::size_t>(device_.steps[s].stream)] = static_cast<int>(s);
    });
    if (unwritten) breach(name_step(s), " reads ", name(id.index), ", which nothing wrote");
    if (unordered >= 0) breach(name_step(s), " reads ", name(id.index), " without waiting for ", name_step(static_cast<std::size_t>(unordered)), ", which writes it");
  }
  void write(std::size_t s, BufferId id) {
    check_alive(s, id);
    if (device_.buffers[static_cast<std::size_t>(root_[static_cast<std::size_t>(id.index)])].constant) breach(name_step(s), " writes ", name(id.index), ", a constant");
    int unordered = -1;
    const Range r = touched(id);
    for_each_piece(r, [&](Piece& p) {
      if (!ended(p.writer, s)) unordered = p.writer;
      for (const int reader : p.readers)
        if (reader != static_cast<int>(s) && !ended(reader, s)) unordered = reader;
    });
    if (unordered >= 0) breach(name_step(s), " writes ", name(id.index), " without waiting for ", name_step(static_cast<std::size_t>(unordered)), ", which uses that memory");
    if (r.begin >= r.end) return;
    Memory& memory = memory_[static_cast<std::size_t>(r.arena)];
    split(memory, r.begin);
    memory.erase(std::next(memory.find(r.begin)), split(memory, r.end));
    memory[r.begin] = Piece{.writer = static_cast<int>(s)};
  }

  const Plan& plan_;
  const DevicePlan& device_;
  Breaches& breaches_;
  std::string where_;
  bool sound_ = true;
  std::vector<int> root_;
  std::vector<std::array<int, plan_streams>> done_;
  std::array<Memory, std::size(arena_kinds)> memory_;
};

void check_parameter(const PlanParameter& p, Breaches& breaches) {
  const std::string where = concat("parameter '", shown(p.name), "'");
  if (const std::string reason = problem_of(p.type); !reason.empty()) return breaches.add(where, ": ", reason);
  if (const std::string reason = problem_of(p.operand); !reason.empty()) return breaches.add(where, ": ", reason);
  if (p.operand.layout.opaque()) return breaches.add(where, ": layout ", p.operand.layout, " cannot be exported");
  if (p.arena != ArenaKind::parameters && p.arena != ArenaKind::optimizer) breaches.add(where, " lies in arena ", name_of(p.arena));
  if (p.type.dtype != p.operand.dtype || p.type.shape.elements() != p.operand.shape.elements())
    return breaches.add(where, " of ", p.type, " is kept as ", p.operand);
  if (p.source.any()) return;
  const std::string reason = problem_of(Operand{p.operand.dtype, p.operand.shape, p.source});
  if (!reason.empty() || !p.source.plain()) breaches.add(where, ": source layout ", p.source, " does not fit ", p.operand.shape);
}

void check_collectives(const Plan& plan, Breaches& breaches) {
  struct Reduction {
    int bucket, stream;
    bool operator==(const Reduction&) const = default;
  };
  std::vector<Reduction> wanted;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    std::vector<Reduction> got;
    for (const Step& step : plan.devices[d].steps)
      if (step.kind == StepKind::all_reduce) got.push_back({step.bucket, step.stream});
    if (d == 0) {
      wanted = std::move(got);
    } else if (got != wanted) {
      const auto at = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end()).first - got.begin();
      breaches.add(plan.devices[d].device, ": all-reduces differ from ", plan.devices[0].device, "'s from number ", at, " on (", got.size(), " and ", wanted.size(), " of them)");
    }
  }
  std::set<int> seen;
  for (const Reduction& r : wanted)
    if (!seen.insert(r.bucket).second) breaches.add("bucket ", r.bucket, " is reduced twice");
}

constexpr std::int64_t most_rows = std::int64_t{1} << 40;

void check_whole(const Plan& plan, Breaches& breaches) {
  if (plan.version != plan_version) breaches.add("version ", plan.version, ", expected ", plan_version);
  if (plan.batch < 0 || plan.batch > most_rows) breaches.add("batch is ", plan.batch, ", expected 0 to ", most_rows);
  if (plan.devices.empty()) breaches.add("there are no devices");
  for (const HostInput& i : plan.inputs) {
    if (const std::string reason = problem_of(i.type); !reason.empty()) breaches.add("input '", shown(i.name), "': ", reason);
    if (i.batched && (i.type.shape.rank() == 0 || i.type.shape[0] != plan.batch))
      breaches.add("input '", shown(i.name), "' of ", i.type, " has no batch of ", plan.batch, " along axis 0");
  }
  for (const HostOutput& o : plan.outputs) {
    if (const std::string reason = problem_of(o.type); !reason.empty()) breaches.add("output '", shown(o.name), "': ", reason);
    if (o.combine == Combine::rows && (o.type.shape.rank() == 0 || o.type.shape[0] != plan.batch))
      breaches.add("output '", shown(o.name), "' of ", o.type, " has no batch of ", plan.batch, " along axis 0");
  }
  std::set<std::string_view> names;
  for (const PlanParameter& p : plan.parameters) {
    check_parameter(p, breaches);
    if (!names.insert(p.name).second) breaches.add("there are two parameters '", shown(p.name), "'");
  }
  std::int64_t rows = 0;
  std::set<std::string> ids;
  for (const DevicePlan& d : plan.devices) {
    if (!ids.insert(to_string(d.device)).second) breaches.add("device ", d.device, " appears twice");
    if (d.slice_size < 0 || d.slice_size > plan.batch || d.slice_begin != rows)
      breaches.add(d.device, ": slice of ", d.slice_size, " rows at ", d.slice_begin, " of ", plan.batch, ", expected to begin at ", rows);
    rows += std::clamp<std::int64_t>(d.slice_size, 0, most_rows);
  }
  if (rows != plan.batch) breaches.add("slices hold ", rows, " rows, the batch ", plan.batch);
}

}  // namespace

void verify(const Plan& plan) {
  Breaches breaches;
  check_whole(plan, breaches);
  for (const DevicePlan& device : plan.devices) DeviceVerifier(plan, device, breaches).run();
  check_collectives(plan, breaches);
  breaches.raise(plan);
}

}  // namespace tandem
