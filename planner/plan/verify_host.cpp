// What passes between devices and the host: no row of the batch is left out, and every row or part of an output comes from one
// device.
#include <algorithm>

#include "planner/plan/step_parts.h"
#include "planner/plan/verify.h"

namespace tandem {
namespace {

struct Rows {
  std::int64_t begin, end;
};

// Sorts rows by where they begin; the first that none of them has, `all` where they have all. `once`: none may be there twice.
std::int64_t first_missing(std::vector<Rows>& rows, std::int64_t all, bool once) {
  std::sort(rows.begin(), rows.end(), [](const Rows& a, const Rows& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::int64_t end = 0;
  for (const Rows& r : rows) {
    if (r.begin == r.end) continue;
    if (once ? r.begin != end : r.begin > end) return std::min(end, r.begin);
    end = std::max(end, r.end);
  }
  return std::min(end, all);
}

// Where the outputs' gradients are inputs, a step is run in two parts: the first neither reads these nor leaves an output of the model to
// the second.
void verify_parts(const Plan& plan, Breaches& breaches) {
  if (!has_parts(plan)) return;
  for (const DeviceProgram& program : plan.programs)
    for (const Step& s : program.steps) {
      const auto* slice = s.as<SliceStep>();
      const auto* concat = s.as<ConcatStep>();
      if (slice && plan.inputs[at(slice->host)].role == ValueRole::gradient && part_of(s.phase) == StepPart::forward)
        breaches.add("the forward pass reads '", brief(plan.inputs[at(slice->host)].name), "', which follows from its outputs");
      if (concat && plan.outputs[at(concat->host)].role == ValueRole::plain && part_of(s.phase) == StepPart::backward)
        breaches.add("output '", brief(plan.outputs[at(concat->host)].name), "' is written in the backward pass");
    }
}

}  // namespace

void verify_host(const Plan& plan, Breaches& breaches) {
  verify_parts(plan, breaches);
  std::vector<std::vector<Rows>> read(plan.inputs.size()), written(plan.outputs.size());
  // Of each output the devices that give a part of it, ascending.
  std::vector<std::vector<std::size_t>> givers(plan.outputs.size());
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    for (const Step& s : plan.program_of(d).steps)
      if (const auto* part = s.as<ConcatStep>(); part && (givers[at(part->host)].empty() || givers[at(part->host)].back() != d))
        givers[at(part->host)].push_back(d);
  std::vector<std::int64_t> parts(plan.outputs.size());
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceProgram& program = plan.program_of(d);
    const int device = static_cast<int>(d);
    const auto rows_of = [&](BufferId id, std::int64_t begin) {
      const Shape& shape = program.buffers[id].operand.shape;
      return Rows{begin, begin + (shape.rank() > 0 ? shape[0] : 0)};
    };
    for (const Step& s : program.steps) {
      if (const auto* slice = s.as<SliceStep>(); slice && plan.inputs[at(slice->host)].batched)
        read[at(slice->host)].push_back(rows_of(s.outputs[0], plan.first_row(device, s.micro_batch)));
      const auto* part = s.as<ConcatStep>();
      if (!part) continue;
      const HostOutput& output = plan.outputs[at(part->host)];
      const std::vector<std::size_t>& list = givers[at(part->host)];
      if (output.combine == Combine::rows && output.type.shape.rank() > 0) {
        written[at(part->host)].push_back(rows_of(s.inputs[0], plan.first_row(device, *part, s.micro_batch)));
      } else {  // as Plan::parts_before
        const std::int64_t begin = s.micro_batch * std::ssize(list) + (std::ranges::lower_bound(list, d) - list.begin());
        written[at(part->host)].push_back({begin, begin + 1});
        ++parts[at(part->host)];
      }
    }
  }
  for (std::size_t i = 0; i < read.size(); ++i) {  // what no device needs is left out whole
    const std::int64_t missing = first_missing(read[i], plan.batch, false);
    if (!read[i].empty() && missing < plan.batch)
      breaches.add("row ", missing, " of input '", brief(plan.inputs[i].name), "' is read by no device");
  }
  for (std::size_t o = 0; o < written.size(); ++o) {
    const HostOutput& output = plan.outputs[o];
    const bool rows = output.combine == Combine::rows;
    if (rows && output.type.shape.rank() == 0) continue;  // said once for the whole plan
    const std::int64_t all = rows ? output.type.shape[0] : output.parts;
    const std::int64_t missing = first_missing(written[o], all, true);
    if (!rows && parts[o] > all)
      breaches.add("output '", brief(output.name), "' has ", all, " parts, and ", parts[o], " are given");
    if (missing < all)
      breaches.add(rows ? "row " : "part ", missing, " of output '", brief(output.name), "' is not written once, by one device");
  }
}

}  // namespace tandem
