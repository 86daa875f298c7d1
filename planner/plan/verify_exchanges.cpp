// What passes between devices: every member of an exchange enters it once, with operands that fit the others', and no devices
// wait for each other.
#include <algorithm>

#include "kernels/exchange_rounds.h"
#include "planner/plan/verify.h"

namespace tandem {
namespace {

class ExchangeVerifier {
 public:
  ExchangeVerifier(const Plan& plan, Breaches& breaches)
      : plan_(plan), breaches_(breaches), entered_(plan.exchanges.size()), issued_(plan.devices.size()) {}

  void run() {
    if (!check_members() || !find_steps()) return;
    for (ExchangeId e{0}; e.index < count(); ++e.index) check_operands(e);
    replay();
  }

 private:
  int count() const { return static_cast<int>(plan_.exchanges.size()); }
  std::string name(ExchangeId e) const {
    return concat("exchange ", e.index, " '", brief(plan_.exchanges[e].name), "' (", name_of(plan_.exchanges[e].kind), ")");
  }
  const DevicePlan& device(int d) const { return plan_.devices[static_cast<std::size_t>(d)]; }

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
      if (members.empty() || members.front() < 0 || members.back() >= static_cast<int>(plan_.devices.size()) ||
          std::adjacent_find(members.begin(), members.end()) != members.end())
        wrong(name(e), " is not among different devices of the plan's ", plan_.devices.size());
      else if (x.kind == ExchangeKind::send ? members.size() != 2 : !is_in_place(x.kind) && members.size() < 2)
        wrong(name(e), " has ", members.size(), " members, expected ",
              x.kind == ExchangeKind::send ? "one that gives and one that gets" : "two at least");
    }
    return right;
  }

  // entered_[e][m]: the step by which member m enters exchange e.
  bool find_steps() {
    bool right = true;
    for (ExchangeId e{0}; e.index < count(); ++e.index) entered_[e].assign(plan_.exchanges[e].devices.size(), StepId{});
    for (int d = 0; d < static_cast<int>(plan_.devices.size()); ++d)
      for (StepId s{0}; s.index < static_cast<int>(device(d).steps.size()); ++s.index) {
        const auto* step = device(d).steps[s].as<ExchangeStep>();
        if (!step) continue;
        const auto& members = plan_.exchanges[step->exchange].devices;
        StepId& entered =
            entered_[step->exchange][static_cast<std::size_t>(std::find(members.begin(), members.end(), d) - members.begin())];
        if (entered.index >= 0) {
          breaches_.add(device(d).device, ": ", name_of_step(plan_, device(d), s), " enters ", name(step->exchange), " again, after step ",
                        entered.index);
          right = false;
        }
        entered = s;
        issued_[static_cast<std::size_t>(d)].push_back(step->exchange);
      }
    for (ExchangeId e{0}; e.index < count(); ++e.index)
      for (std::size_t m = 0; m < entered_[e].size(); ++m)
        if (entered_[e][m].index < 0) {
          breaches_.add(name(e), " is never entered by ", device(plan_.exchanges[e].devices[m]).device);
          right = false;
        }
    return right;
  }

  const Step& step(ExchangeId e, std::size_t member) const { return device(plan_.exchanges[e].devices[member]).steps[entered_[e][member]]; }
  const Buffer& buffer(ExchangeId e, std::size_t member, BufferId id) const {
    return device(plan_.exchanges[e].devices[member]).buffers[id];
  }

  void check_operands(ExchangeId e) {
    const Exchange& x = plan_.exchanges[e];
    if (x.kind == ExchangeKind::all_to_all) return check_pieces(e);
    const bool scatters = x.kind == ExchangeKind::reduce_scatter, gathers = x.kind == ExchangeKind::all_gather;
    const Operand* first = nullptr;
    std::vector<const Buffer*> wholes, parts;
    for (std::size_t m = 0; m < x.devices.size(); ++m) {
      const Step& s = step(e, m);
      for (const auto* list : {&s.inputs, &s.outputs}) {
        for (const BufferId id : *list) {
          const Buffer& b = buffer(e, m, id);
          if (list == &s.inputs ? gathers : scatters) {
            parts.push_back(&b);
            continue;
          }
          wholes.push_back(&b);
          if (!first) first = &b.operand;
          if (b.operand != *first)
            return breaches_.add(name(e), ": ", device(x.devices[m]).device, " has ", b.operand, ", another member ", *first);
        }
      }
    }
    if (gathers || scatters) check_parts(e, wholes, parts);
  }

  // Pieces are counted, not shaped: what they mean as axes is for who cuts them and puts them together.
  void check_pieces(ExchangeId e) {
    const Exchange& x = plan_.exchanges[e];
    ExchangeSpec spec{x.kind, x.devices, x.elements, x.dtype, {}};
    for (std::size_t m = 0; m < x.devices.size(); ++m) {
      const Buffer &given = buffer(e, m, step(e, m).inputs[0]), &got = buffer(e, m, step(e, m).outputs[0]);
      for (const Buffer* b : {&given, &got})
        if (b->operand.dtype != x.dtype || !b->operand.layout.plain())
          return breaches_.add(name(e), ": ", device(x.devices[m]).device, " has ", b->operand, ", expected ", x.dtype, " without blocks");
      if (given.arena == got.arena && given.offset < got.offset + got.bytes && got.offset < given.offset + given.bytes)
        return breaches_.add(name(e), ": what ", device(x.devices[m]).device, " gives shares memory with what it gets");
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

  // Each device enters its exchanges in the order in which it issues them, and waits there for the others: one of the orders
  // that its streams allow. Where all come through so, they do in every other: all exchanges have one order.
  void replay() {
    std::vector<std::size_t> at(issued_.size(), 0);
    IdVector<ExchangeId, std::size_t> came(plan_.exchanges.size(), 0);
    std::vector<int> going(issued_.size());
    for (std::size_t d = 0; d < going.size(); ++d) going[d] = static_cast<int>(d);
    const auto head = [&](int d) {
      const auto& list = issued_[static_cast<std::size_t>(d)];
      return at[static_cast<std::size_t>(d)] < list.size() ? list[at[static_cast<std::size_t>(d)]] : ExchangeId{};
    };
    while (!going.empty()) {
      const int d = going.back();
      going.pop_back();
      const ExchangeId e = head(d);
      if (e.index < 0 || ++came[e] < plan_.exchanges[e].devices.size()) continue;
      for (const int member : plan_.exchanges[e].devices) {
        ++at[static_cast<std::size_t>(member)];
        going.push_back(member);
      }
    }
    for (int d = 0; d < static_cast<int>(issued_.size()); ++d) {
      const ExchangeId e = head(d);
      if (e.index < 0) continue;
      const auto& members = plan_.exchanges[e].devices;
      const StepId s = entered_[e][static_cast<std::size_t>(std::find(members.begin(), members.end(), d) - members.begin())];
      std::string others;
      for (const int member : members)
        if (const ExchangeId before = head(member); before != e)
          others += concat(others.empty() ? "" : ", ", device(member).device, ", which waits in ", name(before));
      breaches_.add(device(d).device, ": ", name_of_step(plan_, device(d), s), " waits in ", name(e), " for ", others);
    }
  }

  const Plan& plan_;
  Breaches& breaches_;
  IdVector<ExchangeId, std::vector<StepId>> entered_;
  std::vector<std::vector<ExchangeId>> issued_;  // by device, in the order of its steps
};

}  // namespace

void verify_exchanges(const Plan& plan, Breaches& breaches) { ExchangeVerifier(plan, breaches).run(); }

}  // namespace tandem
