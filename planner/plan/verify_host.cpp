// What passes between devices and the host: no row of the batch is left out, and every row or part of an output comes from one
// device.
#include <algorithm>
#include <set>

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

}  // namespace

void verify_host(const Plan& plan, Breaches& breaches) {
  std::vector<std::vector<Rows>> read(plan.inputs.size()), written(plan.outputs.size());
  std::vector<std::int64_t> parts(plan.outputs.size());  // so far
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceProgram& program = plan.program_of(d);
    const auto rows_of = [&](BufferId id, std::int64_t begin) {
      const Shape& shape = program.buffers[id].operand.shape;
      return Rows{begin, begin + (shape.rank() > 0 ? shape[0] : 0)};
    };
    std::set<int> gives;  // parts of these
    for (const Step& s : program.steps) {
      if (const auto* slice = s.as<SliceStep>(); slice && plan.inputs[at(slice->host)].batched)
        read[at(slice->host)].push_back(rows_of(s.outputs[0], plan.devices[d].slice_begin));
      if (const auto* part = s.as<ConcatStep>()) {
        const HostOutput& output = plan.outputs[at(part->host)];
        if (output.combine == Combine::rows && output.type.shape.rank() > 0)
          written[at(part->host)].push_back(rows_of(s.inputs[0], plan.first_row(static_cast<int>(d), *part)));
        else
          written[at(part->host)].push_back({parts[at(part->host)], parts[at(part->host)] + 1}), gives.insert(part->host);
      }
    }
    for (const int host : gives) ++parts[at(host)];
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
