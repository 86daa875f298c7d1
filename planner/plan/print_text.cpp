// A plan for people.
#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/page_table.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"
#include "planner/plan/process_memory.h"
#include "planner/plan/step_parts.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

using Align = TextTable::Align;

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string s;
  for (const std::string& p : parts) s += (s.empty() ? "" : std::string(between)) + p;
  return s;
}

const Buffer* find(const DeviceProgram& program, BufferId id) {
  return id.present() && id.index < std::ssize(program.buffers) ? &program.buffers[id] : nullptr;
}

struct ParameterCount {
  double all = 0, trainable = 0;
};
ParameterCount count_parameters(const Plan& plan) {
  ParameterCount count;
  for (const PlanParameter& p : plan.parameters) {
    if (p.arena != ArenaKind::parameters || p.role == ValueRole::copy) continue;
    const double n = static_cast<double>(p.type.shape.elements());
    count.all += n;
    if (p.trainable) count.trainable += n;
  }
  return count;
}
std::string text_of(const ParameterCount& count, PlanMode mode, std::string_view noun = "") {
  return concat(text_of_count(count.all), noun,
                mode == PlanMode::training ? concat(" (", text_of_count(count.trainable), " trainable)") : "");
}

// What devices of several kinds exchange, as weights and gradients are where the host has the optimizer; "" where they are of one kind.
std::string by_host_memory(const Plan& plan) {
  std::int64_t bytes = 0;
  double seconds = 0;
  for (const Exchange& e : plan.exchanges) {
    const std::string& kind = plan.devices[at(e.devices[0])].device.backend;
    if (std::ranges::all_of(e.devices, [&](int d) { return plan.devices[at(d)].device.backend == kind; })) continue;
    bytes += e.elements * static_cast<std::int64_t>(size_of(e.dtype));
    seconds += e.seconds;
  }
  return bytes == 0 ? std::string() : concat(text_of_bytes(bytes), " of exchanges a step, ", text_of_seconds(seconds));
}

// "1.62 GiB of the host's memory: arenas 1.60 GiB, batches 1.2 MiB, a checkpoint's copy 12 MiB, plan and kernels 9 MiB"
std::string process(const Plan& plan) {
  const ProcessMemory m = process_memory(plan);
  std::vector<std::string> parts;
  for (const auto& [what, bytes] :
       {std::pair{"arenas", m.arenas}, {"batches", m.batches}, {"a checkpoint's copy", m.copy}, {"plan and kernels", m.program}})
    if (bytes > 0) parts.push_back(concat(what, ' ', text_of_bytes(bytes)));
  return concat(text_of_bytes(m.total()), " of the host's memory: ", join(parts, ", "));
}

// "8 of 4 samples, by 1f1b; stages wait 11.1% of their time"
std::string micro_batches(const Plan& plan) {
  const std::string parts = concat(plan.micro_batches, " of ", plan.batch / plan.micro_batches, " samples");
  if (plan.schedule.empty()) return concat(parts, ", one behind the other");
  const Plan flat = written_out(plan);
  return concat(parts, ", by ", plan.schedule, fmt::format("; bubble {:.1f}%", 100 * bubble_of(flat, timelines_of(flat))));
}

// "forward 6 steps, 12.1 µs; backward 7 steps, 14.1 µs": of the first device, where they may be run apart
std::string passes(const Plan& plan) {
  if (!has_parts(plan) || plan.devices.empty()) return {};
  std::size_t steps[2] = {};
  double seconds[2] = {};
  for (const Step& s : plan.program_of(0).steps) {
    const auto part = static_cast<std::size_t>(part_of(s.phase));
    ++steps[part];
    seconds[part] += s.seconds;
  }
  const auto text = [&](StepPart part) {
    const auto i = static_cast<std::size_t>(part);
    return concat(steps[i], " steps", seconds[i] > 0 ? concat(", ", text_of_seconds(seconds[i])) : "");
  };
  return concat("forward ", text(StepPart::forward), "; backward, of the outputs' gradients, ", text(StepPart::backward));
}

std::string title(const Plan& plan) {
  return concat(plan.mode == PlanMode::training ? "Training" : "Inference", " plan of ",
                shorten(plan.model.empty() ? "a model" : plan.model, 60), "\n");
}

std::string warnings(const Plan& plan) {
  std::string out = "Warnings\n";
  for (const std::string& w : plan.warnings) out += wrapped("  ", printable(w)) + "\n";
  return out;
}

std::string header(const Plan& plan) {
  std::vector<std::string> rows;
  const auto row = [&](std::string_view title, const std::string& value) {
    if (!value.empty()) rows.push_back(wrapped(concat("  ", title, std::string(16 - title.size(), ' ')), value));
  };
  row("parameters", text_of(count_parameters(plan), plan.mode));
  row("batch", concat(plan.batch, ' ', counted_devices(plan)));
  std::vector<std::string> given;
  for (const HostInput& input : plan.inputs)
    if (input.role != ValueRole::step_state) given.push_back(concat(shorten(input.name, 40), ' ', input.type));
  row("inputs", shorten(join(given, ", "), 160));
  row("loss", plan.loss);
  row("passes", passes(plan));
  row("optimizer", plan.optimizer);
  row("precision", to_string(plan.precision));
  for (const auto& [backend, by] : plan.record.backends) row("libraries", concat(backend, ": ", by));
  row("recompute", plan.recompute);
  row("offload", plan.offload);
  if (plan.seconds > 0)
    row("estimated step",
        concat(text_of_seconds(plan.seconds), ", ", text_of_rate(static_cast<double>(plan.batch) / plan.seconds), " samples/s"));
  if (plan.micro_batches > 1) row("micro-batches", micro_batches(plan));
  row("by host memory", by_host_memory(plan));
  row("process", process(plan));
  std::vector<std::string> restrictions;
  if (plan.options.deterministic) restrictions.push_back("deterministic kernels");
  if (!plan.options.winograd) restrictions.push_back("no Winograd");
  row("restricted to", join(restrictions, ", "));
  return join(rows, "\n") + "\n";
}

// The rows of devices one after another, from the first one's to the last one's.
std::string rows_of(const PlanDevice& first, const PlanDevice& last) {
  if (first.slice_size == 0) return "none";
  const std::int64_t end = last.slice_begin + last.slice_size - 1;
  return end == first.slice_begin ? concat(end) : concat(first.slice_begin, "-", end);
}

std::string names(const std::vector<const PlanDevice*>& group) {
  std::vector<DeviceId> ids;
  for (const PlanDevice* d : group) ids.push_back(d->device);
  return names_of(ids);
}

std::string devices(const Plan& plan) {
  PageTable table({{"device"},
                   {"model"},
                   {"rows", Align::right},
                   {"of the batch", Align::right},
                   {"steps", Align::right},
                   {"work", Align::right},
                   {"estimate", Align::right},
                   {"peak memory", Align::right}});
  struct Row {
    std::vector<const PlanDevice*> devices;
    std::string estimate;
  };
  const std::vector<Timeline> lines = timelines_of(written_out(plan));
  std::vector<Row> rows;  // of devices one after another that are alike in all but their name and which rows they take
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const PlanDevice& d = plan.devices[i];
    std::string estimate = text_of_seconds(lines[i].seconds);
    const PlanDevice* const before = rows.empty() ? nullptr : rows.back().devices[0];
    const bool joins = before && before->program == d.program && before->slice_size == d.slice_size && rows.back().estimate == estimate;
    if (!joins) rows.push_back({{}, std::move(estimate)});
    rows.back().devices.push_back(&d);
  }
  for (const Row& row : rows) {
    const PlanDevice& d = *row.devices[0];
    const DeviceProgram& program = plan.programs[d.program];
    double flops = 0;
    for (const Step& s : program.steps) flops += s.flops;
    table.add({shorten(names(row.devices), 40), shorten(program.model.name, 36),
               concat(d.slice_size, row.devices.size() > 1 ? " each" : ""),
               rows_of(d, *row.devices.back()), concat(program.steps.size()), text_of_count(flops) + "FLOP", row.estimate,
               text_of_bytes(program.peak_bytes())});
  }
  return "Devices\n" + table.text("  ");
}

// Programs that take the same memory, together.
std::string memory(const Plan& plan) {
  const auto same = [](const DeviceProgram& a, const DeviceProgram& b) {
    return a.memory == b.memory &&
           std::equal(a.arenas.begin(), a.arenas.end(), b.arenas.begin(), b.arenas.end(), [](const Arena& x, const Arena& y) {
             return x.kind == y.kind && x.bytes == y.bytes && x.lower_bound == y.lower_bound;
           });
  };
  std::vector<std::pair<const DeviceProgram*, std::vector<const PlanDevice*>>> groups;
  for (const PlanDevice& device : plan.devices) {
    const DeviceProgram& program = plan.programs[device.program];
    const auto like = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& g) { return g.first == &program || same(*g.first, program); });
    auto& group = like == groups.end() ? groups.emplace_back(&program, std::vector<const PlanDevice*>{}) : *like;
    group.second.push_back(&device);
  }
  std::string out = "Memory\n";
  for (const auto& [program, group] : groups) {
    const DeviceProgram& d = *program;
    out += wrapped("  ", concat(names(group), group.size() > 1 ? ", each" : "")) + "\n";
  TextTable classes({{"live at the peak"}, {"bytes", Align::right}});
    for (const auto& [c, bytes] : d.memory)
      if (bytes > 0) classes.add({std::string(name_of(c)), text_of_bytes(bytes)});
    TextTable arenas({{"arena"}, {"bytes", Align::right}, {"lower bound", Align::right}});
    std::int64_t bound = 0;
    for (const Arena& a : d.arenas) {
      bound += a.lower_bound;
      if (a.bytes > 0) arenas.add({std::string(name_of(a.kind)), text_of_bytes(a.bytes), text_of_bytes(a.lower_bound)});
    }
    arenas.add({"peak", text_of_bytes(d.peak_bytes()), text_of_bytes(bound)});
    out += (d.memory.empty() ? "" : classes.text("    ") + "\n") + arenas.text("    ");
  }
  return out;
}

// "all": every device of the plan; "8 rows like cpu:0-7": those of the first row, where each row exchanges by itself.
std::string members(const Plan& plan, const Exchange& e) {
  if (e.rows == 1 && e.devices.size() == plan.devices.size() && plan.devices.size() > 2) return "all";
  std::vector<const PlanDevice*> group;
  for (const int d : e.row(0)) group.push_back(&plan.devices[at(d)]);
  return concat(e.rows > 1 ? concat(e.rows, " rows like ") : "", names(group));
}

std::string exchanges(const Plan& plan) {
  PageTable table({{"name"},
                   {"kind"},
                   {"among"},
                   {"values", Align::right},
                   {"type"},
                   {"bytes", Align::right},
                   {"estimate", Align::right},
                   {"gradients of"}});
  for (const Exchange& e : plan.exchanges) {
    std::string what = e.values.empty() ? std::string() : shorten(e.values.front(), 32);
    if (e.values.size() > 1) what += (e.values.size() == 2 ? ", " : " .. ") + shorten(e.values.back(), 32);
    if (e.values.size() > 2) what += concat(" (", e.values.size(), ")");
    table.add({shorten(e.name, 24), std::string(name_of(e.kind)), members(plan, e), text_of_integer(e.elements), to_string(e.dtype),
               text_of_bytes(e.elements * static_cast<std::int64_t>(size_of(e.dtype))), text_of_seconds(e.seconds), what});
  }
  return "Exchanges\n" + table.text("  ");
}

// The dearest of them.
std::string transfers(const Plan& plan) {
  constexpr std::size_t most = 10;
  PageTable table({{"value"}, {"kind"}, {"along"}, {"bytes", Align::right}, {"for"}, {"reason"}});
  for (std::size_t i = 0; i < std::min(most, plan.transfers.size()); ++i) {
    const PlanTransfer& t = plan.transfers[i];
    table.add({shorten(t.value, 32), std::string(name_of(t.kind)), shorten(t.axis, 32), text_of_bytes(t.bytes), shorten(t.node, 32),
               shorten(t.reason, 200)});
  }
  std::string text = concat("Transfers\n", table.text("  "));
  if (plan.transfers.size() > most) text += concat("  and ", plan.transfers.size() - most, " more, which the plan's JSON has\n");
  return text;
}

// "Conv + Relu" where an activation is fused, "Elementwise: Add, Relu" for a program.
std::string name_of_operator(const LaunchStep& launch) {
  const auto get = [&]<class T>(std::string_view name) {
    const AttributeValue* value = launch.attributes.find(name);
    return value ? std::get_if<T>(value) : nullptr;
  };
  if (const Strings* ops = get.operator()<Strings>("ops")) return concat(launch.op, ": ", shorten(join(*ops, ", "), 36));
  if (const std::string* activation = get.operator()<std::string>("activation")) return concat(launch.op, " + ", *activation);
  return launch.op;
}

// Without the knobs of a library's engine, which the other formats show.
std::string name_of_kernel(const std::string& kernel) {
  const auto engine = kernel.find(".eng"), knobs = engine == std::string::npos ? engine : kernel.find('.', engine + 1);
  return knobs == std::string::npos ? kernel : kernel.substr(0, knobs) + "..";
}

constexpr std::size_t name_width = 100;  // of what a file may give any length: each row is as wide as the widest

std::string steps(const Plan& plan) {
  std::string out;
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    const DeviceProgram& d = plan.programs[p];
    const std::string who = shorten(names_of(plan, p), page_width - 24);
    out += concat("\nSteps of ", who, plan.devices_of(p).size() > 1 ? " (the same)\n" : "\n");
    const bool streams = std::any_of(d.steps.begin(), d.steps.end(), [](const Step& s) { return s.stream != 0; });
    const auto operand = [&](BufferId id) {
      const Buffer* b = find(d, id);
      if (!b) return std::string("-");
      const bool narrow_type = is_16_bit(b->operand.dtype) || (b->operand.dtype == DType::uint8 && !b->operand.layout.opaque());
      const std::string narrow = narrow_type ? concat(':', b->operand.dtype) : "";
      return concat(b->operand.shape, ':', b->operand.layout.opaque() ? "opaque" : b->operand.layout.tag(), narrow);
    };
    // The first four that differ, each with how often it comes in a row: "[8]:a [512]:a ×3".
    const auto operands = [&](const std::vector<BufferId>& ids) {
      std::string out;
      std::size_t at = 0;
      for (int shown = 0; shown < 4 && at < ids.size(); ++shown) {
        const std::string text = operand(ids[at]);
        std::size_t times = 1;
        while (at + times < ids.size() && operand(ids[at + times]) == text) ++times;
        out += concat(out.empty() ? "" : " ", text, times > 1 ? concat(" ×", times) : "");
        at += times;
      }
      return at < ids.size() ? concat(out, " .. (", ids.size(), ")") : out;
    };
    const bool measured = std::any_of(d.steps.begin(), d.steps.end(), [](const Step& s) { return s.measured; });
    PageTable work({{"#", Align::right},
                    {"phase"},
                    {"from"},
                    {"operator"},
                    {"kernel"},
                    {"FLOP", Align::right},
                    {"estimate", Align::right}});
    PageTable values({{"#", Align::right}, {"inputs"}, {"output"}, {"placement"}, {"bytes", Align::right}});
    PageTable places({{"#", Align::right}, {"arena"}, {"offset", Align::right}, {"stream", Align::right}, {"waits for"}});
    for (std::size_t i = 0; i < d.steps.size(); ++i) {
      const Step& s = d.steps[i];
      std::vector<std::string> waits;
      for (const StepId w : s.waits) waits.push_back(concat(w.index));
      const auto* launch = s.as<LaunchStep>();
      const Buffer* made = launch && !s.outputs.empty() ? find(d, s.outputs[0]) : nullptr;
      std::string from = !s.origin.empty() ? shorten(s.origin.front(), 28) : made ? shorten(made->name, 28) : std::string();
      if (s.origin.size() > 1) from += concat(" +", s.origin.size() - 1);
      const Buffer* b = find(d, s.outputs.empty() ? (s.inputs.empty() ? BufferId{} : s.inputs[0]) : s.outputs[0]);
      std::string output = s.outputs.empty() ? std::string() : operand(s.outputs[0]);
      if (s.outputs.size() > 1) output += concat(" +", s.outputs.size() - 1);
      std::string estimate = s.seconds > 0 ? text_of_seconds(s.seconds) : "";
      if (measured && !estimate.empty()) estimate += s.measured ? " *" : "  ";
      const std::string chunk = s.chunk > 0 ? concat(' ', s.chunk) : "";
      work.add({concat(i), d.schedule.empty() ? "" : concat(name_of(s.phase), chunk), from,
                launch ? shorten(name_of_operator(*launch), name_width) : std::string(kind_of(plan, s)),
                launch ? shorten(name_of_kernel(launch->kernel), name_width) : target_of(plan, s),
                s.flops > 0 ? text_of_count(s.flops) : "", estimate});
      values.add({concat(i), operands(s.inputs), output, b ? shorten(b->placement, name_width) : "", b ? text_of_bytes(b->bytes) : ""});
      places.add({concat(i), b ? std::string(name_of(b->arena)) : "", b ? concat(b->offset) : "", streams ? concat(s.stream) : "",
                  shorten(join(waits, ","), 2 * name_width)});
    }
    out += work.text("  ");
    if (measured) out += "  * measured on this device; the others are estimates\n";
    out += concat("\nOperands of ", who, "\n", values.text("  "), "\nPlaces of ", who, "\n", places.text("  "));
  }
  return out;
}

}  // namespace

std::string line_of_plan(const Plan& plan) {
  std::int64_t peak = 0;
  for (const DeviceProgram& p : plan.programs) peak = std::max(peak, p.peak_bytes());
  std::string line =
      concat(shorten(plan.model.empty() ? "a model" : plan.model, 60), ": ", text_of(count_parameters(plan), plan.mode, " parameters"),
             ", batch ", plan.batch, " on ", named_devices(plan), ", ", to_string(plan.precision), ", ", text_of_bytes(peak),
             plan.devices.size() > 1 ? " a device at most" : "", "; process ", text_of_bytes(process_memory(plan).total()));
  if (plan.seconds > 0)
    line += concat("; estimated step ", text_of_seconds(plan.seconds), ", ", text_of_rate(static_cast<double>(plan.batch) / plan.seconds),
                   " samples/s");
  return line;
}

std::string text_of_plan(const Plan& plan, bool with_steps) {
  std::string out = title(plan);
  if (!plan.warnings.empty()) out += "\n" + warnings(plan);
  out += "\n" + header(plan) + "\n" + devices(plan) + "\n" + memory(plan);
  if (!plan.exchanges.empty()) out += "\n" + exchanges(plan);
  if (!plan.transfers.empty()) out += "\n" + transfers(plan);
  if (with_steps) out += steps(plan);
  return printable(out, Lines::kept);
}

}  // namespace tandem
