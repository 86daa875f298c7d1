#include "planner/warnings.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/option.h"
#include "graph/operator.h"
#include "planner/loss/external_loss.h"
#include "planner/loss/labels.h"
#include "planner/place/parallel.h"

namespace tandem {
namespace {

// Devices that would take part in the work if the batch were larger.
void warn_of_idle_devices(std::vector<std::string>& list, const Plan& plan) {
  std::string idle;
  for (const PlanDevice& d : plan.devices)
    if (d.slice_size == 0 && d.weight > 0) idle += concat(idle.empty() ? "" : ", ", d.device);
  if (!idle.empty())
    list.push_back(concat("no samples for ", idle, ": the batch of ", plan.batch, " is too small for these devices and weights"));
}

// One device does all, whatever was said of several.
void warn_of_one_device(std::vector<std::string>& list, const Plan& plan, const CompileOptions& o) {
  const Parallelism& p = o.parallel;
  if (computing_devices(o).size() > 1 || (p.data < 2 && p.tensor < 2 && p.pipeline < 2 && p.stages.empty())) return;
  const std::string_view said = p.stages.empty() ? "parallel" : "stage";
  list.push_back(concat(option(said), " is left out: there is one device, ", plan.devices[0].device, ", which has the whole model"));
}

// More devices of a machine than it has cores.
void warn_of_sharing(std::vector<std::string>& list, const Plan& plan) {
  double most = 1;
  for (const DeviceProgram& p : plan.programs) most = std::max(most, p.model.sharing);
  const auto sharers = std::count_if(plan.devices.begin(), plan.devices.end(),
                                     [&](const PlanDevice& d) { return plan.programs[d.program].model.sharing == most; });
  if (most == 1) return;
  const auto cores = std::llround(static_cast<double>(sharers) / most);
  list.push_back(concat(sharers, " devices take turns on ", cores, cores == 1 ? " core" : " cores", ": a step is estimated to take ",
                        std::round(10 * most) / 10, " times as long as with cores of their own"));
}

void warn_of_statistics(std::vector<std::string>& list, const Plan& plan, const CompileOptions& o) {
  const std::int64_t rows = plan.batch / plan.micro_batches;
  std::int64_t busy = 0, least = rows;
  for (const PlanDevice& d : plan.devices)
    if (d.slice_size > 0) {
      ++busy;
      least = std::min(least, d.slice_size);
    }
  const auto normalizes = [](const Step& s) { return s.op() == "BatchNormalizationTraining"; };
  if (std::ranges::none_of(plan.programs, [&](const DeviceProgram& d) { return std::ranges::any_of(d.steps, normalizes); })) return;
  if (plan.micro_batches > 1)
    list.push_back(concat("BatchNormalization sees each micro-batch of ", rows, " samples by itself: ", plan.micro_batches,
                          " of them do not train exactly as a batch of ", plan.batch));
  if (busy < 2 || least == rows || o.synchronize_batch_norm) return;
  list.push_back(concat("BatchNormalization sees each device's own samples only (", least, " at the least, of a batch of ", rows,
                        "): ", busy, " devices do not train exactly as one, unless ", option("synchronize_batch_norm"), " is given"));
}

// Too few micro-batches keep stages waiting.
void warn_of_bubble(std::vector<std::string>& list, const Plan& plan, const CompileOptions& o) {
  if (o.configuration || o.placement || o.parallel.pipeline == 1 || computing_devices(o).size() < 2) return;
  const Parallelism p = resolved(o.parallel, computing_devices(o).size());
  const auto stages = static_cast<int>(p.pipeline);
  const auto waits = [&](int micro_batches) {
    const std::vector<PartTimes> equal(static_cast<std::size_t>(stages * p.schedule.chunks), PartTimes{1, 1, 1});
    return std::llround(100 * replayed(schedules_of(p.schedule.kind, stages, p.schedule.chunks, micro_batches), equal, 0).bubble);
  };
  const auto count = static_cast<int>(plan.micro_batches);
  if (count < stages)
    list.push_back(concat(stages, " equal stages with ", option("micro_batches"), ' ', count, " wait ", waits(count), "% of a step; with ",
                          4 * stages, " they would wait ", waits(4 * stages), "%"));
}

// "'bn1', 'bn2' and 3 more"
class Names {
 public:
  void add(const std::string& name) {
    constexpr int shown = 3;
    if (++count_ <= shown) text_ += concat(count_ > 1 ? ", '" : "'", name, '\'');
    else more_ = concat(" and ", count_ - shown, " more");
  }
  bool none() const { return count_ == 0; }
  std::string text() const { return text_ + more_; }

 private:
  int count_ = 0;
  std::string text_, more_;
};

// Statistics of a single sample, or even of a single value, whose variance is zero whatever it is.
void warn_of_few_values(std::vector<std::string>& list, const Plan& plan) {
  Names lone, single;
  std::set<std::string> seen;
  for (ProgramId id{0}; id.index < std::ssize(plan.programs); ++id.index)
    for (const DeviceProgram& d = plan.programs[id]; const Step& s : d.steps) {
      const std::int64_t samples = plan.devices[at(plan.devices_of(id)[0])].slice_size;
      if (s.op() != "BatchNormalizationTraining" || samples == 0) continue;
      const Shape& x = d.buffers[s.inputs[0]].operand.shape;
      const std::int64_t values = x.rank() < 2 || x[1] == 0 ? 0 : x.elements() / x[1];
      const std::string name = s.origin.empty() ? std::string(s.op()) : s.origin[0];
      if ((values == 1 || samples == 1) && seen.insert(name).second) (values == 1 ? lone : single).add(name);
    }
  if (!lone.none())
    list.push_back(concat("BatchNormalization ", lone.text(),
                          " has one value a channel to normalize: its variance is zero and the output is the bias, whatever "
                          "the input; a device needs more samples of a batch"));
  if (!single.none())
    list.push_back(concat("BatchNormalization ", single.text(),
                          " takes its statistics from one sample: give a device more samples of a batch, or freeze it"));
}

// What normalizes by running statistics divides by the root of the variance that the file holds.
void warn_of_variances(std::vector<std::string>& list, const Graph& model) {
  Names zero, negative;
  for (const Node& node : model.nodes) {
    if (node.op->name != "BatchNormalization" || node.inputs.size() < 5 || !node.inputs[4].present()) continue;
    const Value& variance = model[node.inputs[4]];
    if (!variance.data || !is_float(variance.type.dtype)) continue;
    const std::vector<double> v = variance.data->to_doubles();
    if (std::any_of(v.begin(), v.end(), [](double x) { return x < 0; })) negative.add(node.name);
    else if (!v.empty() && std::all_of(v.begin(), v.end(), [](double x) { return x == 0; })) zero.add(node.name);
  }
  if (!negative.none())
    list.push_back(
        concat("BatchNormalization ", negative.text(), " has a negative variance in the file: evaluation gives no numbers there"));
  if (!zero.none())
    list.push_back(concat("BatchNormalization ", zero.text(),
                          " has a variance of zero in the file, for all channels: evaluation divides by the root of epsilon alone"));
}

void warn_of_outputs(std::vector<std::string>& list, const CompileOptions& o, const Graph& model) {
  const std::vector<CompileOptions> losses = options_of_losses(o);
  if (model.outputs.size() < 2 || !losses[0].loss.on.empty()) return;
  const ValueId taken = loss_value(model, o);
  std::string others;
  for (const GraphOutput& out : model.outputs)
    if (out.value != taken) others += concat(others.empty() ? "'" : ", '", model[out.value].name, '\'');
  list.push_back(concat("the loss is that of the model's ", taken == model.outputs[0].value ? "first output '" : "first output of floats '",
                        model[taken].name, "'; not of ", others, " (", option("loss_on"), " names another)"));
}

// Whoever names an output that is no loss gets what he asked for, and not what he wants.
void warn_of_loss(std::vector<std::string>& list, const CompileOptions& o, const Graph& model) {
  const CompileOptions first = options_of_losses(o)[0];
  if (parse_loss(first.loss.name)[0].loss != "output") return;
  const Value& loss = model[loss_value(model, first)];
  const Shape& shape = loss.type.shape;
  const std::int64_t samples = loss.depends_on_batch && shape.rank() > 0 ? std::max<std::int64_t>(1, shape[0]) : 1;
  if (shape.elements() > samples)
    list.push_back(concat(first.loss.on.empty() ? "the model's first output '" : "'", loss.name, "' is taken for its loss, but has ",
                          shape.elements() / samples, " numbers a sample: their mean is made small"));
}

}  // namespace

std::vector<std::string> warnings_of(const Plan& plan, const CompileOptions& o, const Graph& model) {
  std::vector<std::string> list;
  warn_of_idle_devices(list, plan);
  warn_of_one_device(list, plan, o);
  warn_of_sharing(list, plan);
  warn_of_variances(list, model);
  if (plan.mode != PlanMode::training) return list;
  warn_of_statistics(list, plan, o);
  warn_of_bubble(list, plan, o);
  warn_of_few_values(list, plan);
  if (has_external_loss(o)) return list;
  warn_of_loss(list, o, model);
  warn_of_outputs(list, o, model);
  return list;
}

}  // namespace tandem
