// Plan file → plan. Nothing in the file is trusted.
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/wire_format.h"
#include "planner/plan/format.h"
#include "planner/plan/plan_file.h"
#include "tandem_plan.pb.h"

namespace tandem {
namespace {

namespace file = tandem::plan;

// An enumeration's value as stored, 0..last.
template <class E>
E read_enum(int value, E last, std::string_view what) {
  if (value < 0 || value > static_cast<int>(last)) fail(what, " is ", value, ", expected 0 to ", static_cast<int>(last));
  return static_cast<E>(value);
}

ValueRole read_role(int value) { return read_enum(value, last_role, "role"); }

Shape read_shape(const file::Type& in) {
  return Shape(std::vector<std::int64_t>(in.dims().begin(), in.dims().end()));
}

TensorType read(const file::Type& in) {
  TensorType type{static_cast<DType>(in.dtype()), read_shape(in)};
  if (const std::string reason = problem_of(type); !reason.empty()) fail(reason);
  return type;
}

Operand read(const file::Operand& in) {
  Operand operand{static_cast<DType>(in.type().dtype()), read_shape(in.type()), Layout(in.layout())};
  if (const std::string reason = problem_of(operand); !reason.empty()) fail(reason);
  return operand;
}

Tensor read(const file::Tensor& in) {
  const TensorType type = read(in.type());
  const std::size_t bytes = static_cast<std::size_t>(type.shape.elements()) * size_of(type.dtype);
  if (in.values().size() != bytes) fail("tensor ", type, " has ", in.values().size(), " bytes, expected ", bytes);
  Tensor tensor(type);
  std::copy_n(reinterpret_cast<const std::byte*>(in.values().data()), bytes, tensor.write().begin());
  return tensor;
}

AttributeValue read(const file::Attribute& in) {
  switch (in.value_case()) {
    case file::Attribute::kInteger: return in.integer();
    case file::Attribute::kReal: return in.real();
    case file::Attribute::kText: return in.text();
    case file::Attribute::kInts: return Ints(in.ints().values().begin(), in.ints().values().end());
    case file::Attribute::kFloats: return Floats(in.floats().values().begin(), in.floats().values().end());
    case file::Attribute::kTexts: return Strings(in.texts().values().begin(), in.texts().values().end());
    case file::Attribute::kTensor: return read(in.tensor());
    case file::Attribute::VALUE_NOT_SET: break;
  }
  fail("attribute '", in.name(), "' has no value");
}

Buffer read(const file::Buffer& in) {
  Buffer buffer;
  buffer.name = in.name();
  buffer.operand = read(in.operand());
  buffer.memory = read_enum(in.memory(), MemoryClass::workspace, "memory class");
  buffer.arena = read_enum(in.arena(), ArenaKind::staging, "arena");
  buffer.offset = in.offset();
  buffer.bytes = in.bytes();
  buffer.first = {in.first()};
  buffer.last = {in.last()};
  buffer.alias = {in.alias()};
  buffer.placement = in.placement();
  buffer.in_slot = in.in_slot();
  if (in.has_constant()) buffer.constant = read(in.constant());
  return buffer;
}

LaunchStep read(const file::Launch& in) {
  LaunchStep launch{in.op(), in.kernel(), {}};
  for (const file::Attribute& attribute : in.attributes()) launch.attributes.set(attribute.name(), read(attribute));
  return launch;
}

decltype(Step::what) read_action(const file::Step& in) {
  switch (in.what_case()) {
    case file::Step::kSlice: return SliceStep{in.slice()};
    case file::Step::kLaunch: return read(in.launch());
    case file::Step::kExchange: return ExchangeStep{{in.exchange()}};
    case file::Step::kConcat: return ConcatStep{in.concat()};
    case file::Step::WHAT_NOT_SET: break;
  }
  fail("a step does nothing");
}

Step read(const file::Step& in) {
  Step step{.what = read_action(in)};
  for (const int b : in.inputs()) step.inputs.push_back({b});
  for (const int b : in.outputs()) step.outputs.push_back({b});
  step.workspace = {in.workspace()};
  step.stream = in.stream();
  for (const int s : in.waits()) step.waits.push_back({s});
  step.origin.assign(in.origin().begin(), in.origin().end());
  step.flops = in.flops();
  step.bytes = in.bytes();
  step.seconds = in.seconds();
  step.measured = in.measured();
  return step;
}

void read_schedule(const file::Program& in, DeviceProgram& program) {
  std::int64_t next = 0;
  for (const file::PhaseSteps& part : in.phases()) {
    const Phase phase = read_enum(part.phase(), Phase::update, "phase");
    if (part.steps() < 0 || part.steps() > std::ssize(program.steps) - next)
      fail("phase ", name_of(phase), " has ", part.steps(), " steps behind step ", next, " of ", program.steps.size());
    for (const std::int64_t end = next + part.steps(); next < end; ++next) {
      Step& step = program.steps[static_cast<std::size_t>(next)];
      step.phase = phase;
      step.chunk = part.chunk();
    }
  }
  if (in.phases_size() > 0 && next < std::ssize(program.steps)) fail("step ", next, " is in no phase");
  for (const file::ScheduleEntry& e : in.schedule())
    program.schedule.push_back({read_enum(e.phase(), Phase::update, "phase"), e.chunk(), e.micro_batch(), e.slot()});
  program.slots = in.slots();
  program.slot_bytes = in.slot_bytes();
}

DeviceProgram read(const file::Program& in) {
  DeviceProgram program;
  const file::DeviceModel& m = in.model();
  program.model = {m.name(),           m.memory(),         m.flops(),   m.bandwidth(),
                   m.launch_seconds(), m.link_bandwidth(), m.threads(), m.multiprocessors()};
  for (const file::Arena& arena : in.arenas())
    program.arenas.push_back({read_enum(arena.kind(), ArenaKind::staging, "arena"), arena.bytes(), arena.lower_bound()});
  for (const file::Buffer& buffer : in.buffers()) program.buffers.push_back(read(buffer));
  for (const file::Step& step : in.steps()) program.steps.push_back(read(step));
  for (const file::MemoryUse& use : in.memory())
    program.memory.emplace_back(read_enum(use.memory(), MemoryClass::workspace, "memory class"), use.bytes());
  read_schedule(in, program);
  return program;
}

PlanParameter read(const file::Parameter& in) {
  PlanParameter parameter;
  parameter.name = in.name();
  parameter.type = read(in.type());
  parameter.source = Layout(in.source());
  parameter.arena = read_enum(in.arena(), ArenaKind::staging, "arena");
  for (const file::ParameterPart& part : in.parts()) {
    std::vector<ProgramRange> ranges;
    for (const file::ProgramRange& r : part.ranges())
      ranges.push_back({r.axis(), r.cut(), r.unit(), r.size(), r.outer(), {r.widths().begin(), r.widths().end()}});
    parameter.parts.push_back({{part.program()}, read(part.operand()), part.offset(), std::move(ranges)});
  }
  parameter.trainable = in.trainable();
  parameter.role = read_role(in.role());
  parameter.of = in.of();
  return parameter;
}

// Of all exchanges of a plan together: those of 4,096 devices in 4,096 exchanges. A few bytes of a file name many again.
constexpr std::int64_t most_members = std::int64_t{1} << 24;

Exchange read(const file::Exchange& in, const file::Plan& plan, std::int64_t& together) {
  Exchange exchange;
  exchange.kind = read_enum(in.kind(), ExchangeKind::all_to_all, "exchange");
  exchange.name = in.name();
  if (in.members() < 0 || in.members() >= plan.members_size())
    fail("exchange '", in.name(), "' is among members ", in.members(), " of ", plan.members_size());
  const file::Members& members = plan.members(in.members());
  if ((together += members.devices_size()) > most_members)
    fail("exchange '", in.name(), "' and those before it have ", together, " members together, expected at most ", most_members);
  exchange.devices.assign(members.devices().begin(), members.devices().end());
  exchange.rows = members.rows();
  exchange.elements = in.elements();
  exchange.dtype = static_cast<DType>(in.dtype());
  exchange.values.assign(in.values().begin(), in.values().end());
  exchange.seconds = in.seconds();
  return exchange;
}

PlanTransfer read(const file::Transfer& in) {
  return {read_enum(in.kind(), ExchangeKind::all_to_all, "transfer"), in.value(), in.bytes(), in.axis(), in.node(), in.reason()};
}

PlanRecord read(const file::Record& in) {
  PlanRecord record{.options = in.options(), .model = in.model(), .request = in.request()};
  for (const file::Computing& computing : in.backends()) record.backends.emplace_back(computing.backend(), computing.by());
  record.update = read_enum(in.update(), UpdateKind::adam_hat, "update");
  record.beta1 = in.beta1();
  record.beta2 = in.beta2();
  record.steps_before = in.steps_before();
  record.learning_rate = in.learning_rate();
  record.seed = in.seed();
  return record;
}

Plan read(const file::Plan& in) {
  if (in.format() != plan_format) fail("not a plan file");
  if (in.version() != plan_version)
    fail("version ", in.version(), ", this tandem reads version ", plan_version, ": make the plan again from its model");
  Plan plan;
  plan.version = in.version();
  plan.model = in.model();
  plan.mode = read_enum(in.mode(), PlanMode::inference, "mode");
  plan.batch = in.batch();
  plan.micro_batches = in.micro_batches();
  plan.schedule = in.schedule();
  plan.loss = in.loss();
  plan.optimizer = in.optimizer();
  plan.recompute = in.recompute();
  plan.offload = in.offload();
  plan.precision = read_enum(in.precision(), Precision::fp8, "precision");
  plan.options.threads = in.options().threads();
  plan.options.deterministic = in.options().deterministic();
  plan.options.winograd = in.options().winograd();
  plan.options.tf32 = in.options().tf32();
  plan.options.preference = read_enum(in.options().preference(), LayoutPreference::channels_last, "layout preference");
  for (const file::HostInput& input : in.inputs())
    plan.inputs.push_back({input.name(), read(input.type()), input.batched(), read_role(input.role()), input.of()});
  for (const file::HostOutput& output : in.outputs())
    plan.outputs.push_back({output.name(), read(output.type()), read_enum(output.combine(), Combine::sum, "combine"), output.parts(),
                            read_role(output.role()), output.of()});
  for (const file::Cut& cut : in.cuts()) plan.cuts.push_back({{cut.begins().begin(), cut.begins().end()}});
  for (const file::Parameter& parameter : in.parameters()) plan.parameters.push_back(read(parameter));
  std::int64_t members = 0;
  for (const file::Exchange& exchange : in.exchanges()) plan.exchanges.push_back(read(exchange, in, members));
  for (const file::Transfer& transfer : in.transfers()) plan.transfers.push_back(read(transfer));
  for (const file::Program& program : in.programs()) plan.programs.push_back(read(program));
  for (const file::Device& d : in.devices())
    plan.devices.push_back({{d.backend(), d.index()}, {d.program()}, d.weight(), d.slice_begin(), d.slice_size()});
  plan.warnings.assign(in.warnings().begin(), in.warnings().end());
  plan.seconds = in.seconds();
  if (in.has_record()) plan.record = read(in.record());
  plan.made_from = in.made_from();
  return plan;
}

// The fields of a plan that hold messages, down to a step.
constexpr std::string_view plan_begin = "\x0a\x0btandem.plan";  // the field `format`, which is written first
enum : int { in_plan, in_program, in_step, in_other };
constexpr WireField wire_fields[] = {
    {in_plan, 8, "options", in_other},       {in_plan, 9, "inputs[]", in_other},     {in_plan, 10, "outputs[]", in_other},
    {in_plan, 11, "parameters[]", in_other}, {in_plan, 17, "exchanges[]", in_other}, {in_plan, 18, "transfers[]", in_other},
    {in_plan, 19, "cuts[]", in_other},       {in_plan, 20, "members[]", in_other},   {in_plan, 21, "programs[]", in_program},
    {in_plan, 22, "devices[]", in_other},    {in_program, 3, "model", in_other},     {in_program, 7, "arenas[]", in_other},
    {in_program, 8, "buffers[]", in_other},  {in_program, 9, "steps[]", in_step},    {in_program, 10, "memory[]", in_other},
    {in_step, 18, "launch", in_other},       {in_program, 11, "phases[]", in_other}, {in_program, 12, "schedule[]", in_other},
    {in_plan, 26, "record", in_other},
};

}  // namespace

Plan parse_plan(const std::string& bytes) {
  if (!bytes.starts_with(plan_begin)) fail(ExitCode::model, "plan file: not a plan file", it_is(bytes));
  file::Plan in;
  if (!in.ParseFromString(bytes)) fail(ExitCode::model, "plan file: cut off or damaged: ", broken_part(bytes, wire_fields));
  if (bytes.size() < checksum_bytes || with_checksum(bytes.substr(0, bytes.size() - checksum_bytes)) != bytes)
    fail(ExitCode::model, "plan file: damaged: its checksum is missing or not that of its contents");
  Plan plan;
  try {
    plan = read(in);
  } catch (const Error& e) {
    fail(ExitCode::model, "plan file: ", e.what());
  }
  verify(plan);
  return plan;
}

Plan read_plan(const std::string& path) {
  const std::string bytes = read_file(path, ExitCode::model);
  try {
    return parse_plan(bytes);
  } catch (const Error& e) {
    fail(e.code(), path, ": ", e.what());
  }
}

bool is_plan_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string begin(plan_begin.size(), '\0');
  return std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == plan_begin;
}

}  // namespace tandem
