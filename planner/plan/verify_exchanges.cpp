// What passes between devices: every member of an exchange enters it once, with operands that fit the others', and no devices
// wait for each other.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "kernels/exchange_rounds.h"
#include "planner/plan/verify.h"

namespace tandem {
namespace {

class ExchangeVerifier {
 public:
  ExchangeVerifier(const Plan& plan, Breaches& breaches)
      : plan_(plan), breaches_(breaches), entered_(plan.programs.size()), issued_(plan.programs.size()) {}

  void run() {
    if (!check_members() || !find_steps()) return;
    for (ExchangeId e{0}; e.index < count(); ++e.index) check_rows(e);
    replay();
  }

 private:
  // One of those that exchange, and what it does.
  struct Member {
    int device;
    const DeviceProgram* program;
    const Step* step;
    const Buffer& buffer(BufferId id) const { return program->buffers[id]; }
  };

  int count() const { return static_cast<int>(plan_.exchanges.size()); }
  std::string name(ExchangeId e) const {
    return concat("exchange ", e.index, " '", brief(plan_.exchanges[e].name), "' (", name_of(plan_.exchanges[e].kind), ")");
  }
  const DeviceId& name_of_device(int d) const { return plan_.devices[at(d)].device; }
  ProgramId program_of(int d) const { return plan_.devices[at(d)].program; }
  std::string name_of_step(int d, StepId s) const { return tandem::name_of_step(plan_, plan_.program_of(at(d)), s); }

  bool check_members() {
    bool right = true;
    const auto wrong = [&](const auto&... what) {
      breaches_.add(what...);
      right = false;
    };
    for (ExchangeId e{0}; e.index < count(); ++e.index) {
      const Exchange& x = plan_.exchanges[e];
      std::vector<int> members = x.devices;
      std::sort(members.begin(), members.end());
      if (members.empty() || members.front() < 0 || members.back() >= std::ssize(plan_.devices) ||
          std::adjacent_find(members.begin(), members.end()) != members.end())
        wrong(name(e), " is not among different devices of the plan's ", plan_.devices.size());
      else if (x.kind == ExchangeKind::send ? x.row_length() != 2 : !is_in_place(x.kind) && x.row_length() < 2)
        wrong(name(e), " has ", x.row_length(), " members, expected ",
              x.kind == ExchangeKind::send ? "one that gives and one that gets" : "two at least");
    }
    return right;
  }

  bool find_steps() {
    bool right = true;
    for (ProgramId p{0}; p.index < std::ssize(plan_.programs); ++p.index) {
      const DeviceProgram& program = plan_.programs[p];
      for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
        const auto* exchange = program.steps[s].as<ExchangeStep>();
        if (!exchange) continue;
        const auto [entered, first] = entered_[p].emplace(exchange->exchange, Entry{s, issued_[p].size()});
        if (!first) {
          breaches_.add(names_of(plan_, p), ": ", tandem::name_of_step(plan_, program, s), " enters ", name(exchange->exchange),
                        " again, after step ", entered->second.step.index);
          right = false;
        }
        issued_[p].push_back(exchange->exchange);
      }
    }
    for (ExchangeId e{0}; e.index < count(); ++e.index)
      for (const int d : plan_.exchanges[e].devices)
        if (!entered_[program_of(d)].contains(e)) {
          breaches_.add(name(e), " is never entered by ", name_of_device(d));
          right = false;
        }
    return right;
  }

  StepId step_of(ExchangeId e, int device) const { return entered_[program_of(device)].at(e).step; }

  // Rows of the same programs need be looked at once.
  void check_rows(ExchangeId e) {
    const Exchange& x = plan_.exchanges[e];
    std::set<std::vector<ProgramId>> seen;
    for (std::size_t r = 0; r < at(x.rows); ++r) {
      std::vector<ProgramId> programs;
      std::vector<Member> members;
      for (const int d : x.row(r)) {
        programs.push_back(program_of(d));
        const DeviceProgram& program = plan_.programs[programs.back()];
        members.push_back({d, &program, &program.steps[step_of(e, d)]});
      }
      if (seen.insert(std::move(programs)).second) check_operands(e, members);
    }
  }

  void check_operands(ExchangeId e, const std::vector<Member>& members) {
    const Exchange& x = plan_.exchanges[e];
    if (x.kind == ExchangeKind::all_to_all) return check_pieces(e, members);
    const bool scatters = x.kind == ExchangeKind::reduce_scatter, gathers = x.kind == ExchangeKind::all_gather;
    const Operand* first = nullptr;
    std::vector<const Buffer*> wholes, parts;
    for (const Member& m : members) {
      for (const auto* list : {&m.step->inputs, &m.step->outputs}) {
        for (const BufferId id : *list) {
          const Buffer& b = m.buffer(id);
          if (list == &m.step->inputs ? gathers : scatters) {
            parts.push_back(&b);
            continue;
          }
          wholes.push_back(&b);
          if (!first) first = &b.operand;
          if (b.operand != *first)
            return breaches_.add(name(e), ": ", name_of_device(m.device), " has ", b.operand, ", another member ", *first);
        }
      }
    }
    if (gathers || scatters) check_parts(e, wholes, parts);
  }

  // Pieces are counted, not shaped: what they mean as axes is for who cuts them and puts them together.
  void check_pieces(ExchangeId e, const std::vector<Member>& members) {
    const Exchange& x = plan_.exchanges[e];
    ExchangeSpec spec{x.kind, {}, x.elements, x.dtype, {}};
    for (const Member& m : members) {
      const Buffer &given = m.buffer(m.step->inputs[0]), &got = m.buffer(m.step->outputs[0]);
      for (const Buffer* b : {&given, &got})
        if (b->operand.dtype != x.dtype || !b->operand.layout.plain())
          return breaches_.add(name(e), ": ", name_of_device(m.device), " has ", b->operand, ", expected ", x.dtype, " without blocks");
      if (given.arena == got.arena && given.offset < got.offset + got.bytes && got.offset < given.offset + given.bytes)
        return breaches_.add(name(e), ": what ", name_of_device(m.device), " gives shares memory with what it gets");
      spec.members.push_back(m.device);
      spec.parts.push_back(given.operand.shape.elements());
      spec.gets.push_back(got.operand.shape.elements());
    }
    if (const std::string fault = fault_of(spec); !fault.empty()) breaches_.add(name(e), ": ", fault);
  }

  // Parts lie one behind the other in the whole, and share memory with it only where they lie in their place.
  void check_parts(ExchangeId e, const std::vector<const Buffer*>& wholes, const std::vector<const Buffer*>& parts) {
    const Operand& whole = wholes[0]->operand;
    const int axis = outermost(whole);
    std::int64_t begin = 0, offset = 0;
    for (std::size_t m = 0; m < parts.size(); ++m) {
      const Operand& part = parts[m]->operand;
      Shape rest = part.shape;
      if (axis >= 0 && rest.rank() == whole.shape.rank()) rest[axis] = whole.shape[axis];
      if (axis < 0 || part.dtype != whole.dtype || part.layout != whole.layout || rest != whole.shape)
        return breaches_.add(name(e), ": ", part, " is no part of ", whole, " along the axis that is outermost in memory");
      const Buffer& all = *wholes[m];
      const bool apart = part.bytes() == 0 || parts[m]->arena != all.arena || parts[m]->offset + part.bytes() <= all.offset ||
                         all.offset + whole.bytes() <= parts[m]->offset;
      if (!apart && parts[m]->offset != all.offset + offset)
        return breaches_.add(name(e), ": member ", m, "'s part shares memory with the whole, but not at its place there");
      begin += part.shape[axis];
      offset += part.bytes();
    }
    if (begin != whole.shape[axis]) breaches_.add(name(e), ": the parts have ", begin, " of ", whole.shape[axis], " along axis ", axis);
  }
  // The axis along which parts of an operand are whole ranges of its memory; -1 where there is none.
  static int outermost(const Operand& o) {
    if (o.shape.rank() == 0 || !o.layout.plain()) return -1;
    for (const char letter : o.layout.tag())
      if (const int axis = letter - 'a'; o.shape[axis] != 1) return axis;
    return o.layout.tag()[0] - 'a';
  }

  // Each device enters its exchanges in the order in which it issues them, one behind the other, and waits there for the others, as if it
  // did one thing at a time. Where all come through so, they do where some of these go on beside each other.
  void replay() {
    std::vector<std::size_t> next(plan_.devices.size());
    std::vector<bool> waits(plan_.devices.size());        // in the exchange at hand
    IdVector<ExchangeId, std::vector<std::size_t>> came;  // by row
    for (const Exchange& x : plan_.exchanges) came.emplace_back(at(x.rows));
    const std::vector<std::vector<std::size_t>> rows = rows_by_turn();
    const auto head = [&](int d) { return issued_[program_of(d)][next[at(d)]]; };
    const auto row = [&](int d) { return rows[at(d)][next[at(d)]]; };
    std::vector<int> going(next.size());
    std::iota(going.begin(), going.end(), 0);
    while (!going.empty()) {
      const int d = going.back();
      going.pop_back();
      if (waits[at(d)] || next[at(d)] == issued_[program_of(d)].size()) continue;
      const ExchangeId e = head(d);
      const std::size_t r = row(d);
      waits[at(d)] = true;
      if (++came[e][r] < plan_.exchanges[e].row_length()) continue;
      for (const int member : plan_.exchanges[e].row(r)) {
        ++next[at(member)];
        waits[at(member)] = false;
        going.push_back(member);
      }
    }
    for (int d = 0; d < std::ssize(next); ++d) {
      if (!waits[at(d)]) continue;
      const ExchangeId e = head(d);
      std::string others;
      for (const int member : plan_.exchanges[e].row(row(d)))
        if (head(member) != e)
          others += concat(others.empty() ? "" : ", ", name_of_device(member), ", which waits in ", name(head(member)));
      breaches_.add(name_of_device(d), ": ", name_of_step(d, step_of(e, d)), " waits in ", name(e), " for ", others);
    }
  }

  // In which row of the exchange a device stands, by device and turn.
  std::vector<std::vector<std::size_t>> rows_by_turn() const {
    std::vector<std::vector<std::size_t>> rows;
    for (const PlanDevice& d : plan_.devices) rows.emplace_back(issued_[d.program].size());
    for (ExchangeId e{0}; e.index < count(); ++e.index)
      for (std::size_t r = 0; r < at(plan_.exchanges[e].rows); ++r)
        for (const int d : plan_.exchanges[e].row(r)) rows[at(d)][entered_[program_of(d)].at(e).turn] = r;
    return rows;
  }

  const Plan& plan_;
  Breaches& breaches_;
  struct Entry {
    StepId step;
    std::size_t turn;  // among the exchanges that the program enters
  };
  IdVector<ProgramId, std::map<ExchangeId, Entry>> entered_;
  IdVector<ProgramId, std::vector<ExchangeId>> issued_;  // in the order of the program's steps
};

}  // namespace

void verify_exchanges(const Plan& plan, Breaches& breaches) { ExchangeVerifier(plan, breaches).run(); }

}  // namespace tandem
