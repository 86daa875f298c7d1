// Plan → plan file.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <map>

#include "base/hash.h"
#include "planner/plan/format.h"
#include "planner/plan/plan_file.h"
#include "tandem_plan.pb.h"

namespace tandem {
namespace {

namespace file = tandem::plan;

void write(const TensorType& type, file::Type* out) {
  out->set_dtype(static_cast<int>(type.dtype));
  for (const std::int64_t d : type.shape) out->add_dims(d);
}

void write(const Operand& operand, file::Operand* out) {
  write(TensorType{operand.dtype, operand.shape}, out->mutable_type());
  out->set_layout(operand.layout.tag());
}

void write(const Tensor& tensor, file::Tensor* out) {
  write(tensor.type(), out->mutable_type());
  out->set_values(tensor.bytes().data(), tensor.bytes().size());
}

void write(const AttributeValue& value, file::Attribute* out) {
  struct Writer {
    file::Attribute* out;
    void operator()(std::int64_t v) const { out->set_integer(v); }
    void operator()(float v) const { out->set_real(v); }
    void operator()(const std::string& v) const { out->set_text(v); }
    void operator()(const Ints& v) const { out->mutable_ints()->mutable_values()->Add(v.begin(), v.end()); }
    void operator()(const Floats& v) const { out->mutable_floats()->mutable_values()->Add(v.begin(), v.end()); }
    void operator()(const Strings& v) const {
      out->mutable_texts();
      for (const std::string& s : v) out->mutable_texts()->add_values(s);
    }
    void operator()(const Tensor& v) const { write(v, out->mutable_tensor()); }
  };
  std::visit(Writer{out}, value);
}

void write(const Buffer& buffer, file::Buffer* out) {
  out->set_name(buffer.name);
  write(buffer.operand, out->mutable_operand());
  out->set_memory(static_cast<file::MemoryClass>(buffer.memory));
  out->set_arena(static_cast<file::ArenaKind>(buffer.arena));
  out->set_offset(buffer.offset);
  out->set_bytes(buffer.bytes);
  out->set_first(buffer.first.index);
  out->set_last(buffer.last.index);
  out->set_alias(buffer.alias.index);
  out->set_placement(buffer.placement);
  out->set_in_slot(buffer.in_slot);
  if (buffer.constant) write(*buffer.constant, out->mutable_constant());
}

struct ActionWriter {
  file::Step* out;
  void operator()(const SliceStep& s) const { out->set_slice(s.host); }
  void operator()(const ConcatStep& s) const { out->set_concat(s.host); }
  void operator()(const ExchangeStep& s) const { out->set_exchange(s.exchange.index); }
  void operator()(const LaunchStep& s) const {
    file::Launch* launch = out->mutable_launch();
    launch->set_op(s.op);
    launch->set_kernel(s.kernel);
    for (const auto& [name, value] : s.attributes) {
      file::Attribute* attribute = launch->add_attributes();
      attribute->set_name(name);
      write(value, attribute);
    }
  }
};

void write(const Step& step, file::Step* out) {
  std::visit(ActionWriter{out}, step.what);
  for (const BufferId b : step.inputs) out->add_inputs(b.index);
  for (const BufferId b : step.outputs) out->add_outputs(b.index);
  out->set_workspace(step.workspace.index);
  out->set_stream(step.stream);
  for (const StepId s : step.waits) out->add_waits(s.index);
  for (const std::string& s : step.origin) out->add_origin(s);
  out->set_flops(step.flops);
  out->set_bytes(step.bytes);
  out->set_seconds(step.seconds);
  out->set_measured(step.measured);
}

void write_schedule(const DeviceProgram& program, file::Program* out) {
  for (const Step& step : program.steps) {
    file::PhaseSteps* last = out->phases_size() > 0 ? out->mutable_phases(out->phases_size() - 1) : nullptr;
    if (!last || last->phase() != static_cast<file::Phase>(step.phase) || last->chunk() != step.chunk) {
      last = out->add_phases();
      last->set_phase(static_cast<file::Phase>(step.phase));
      last->set_chunk(step.chunk);
    }
    last->set_steps(last->steps() + 1);
  }
  for (const ScheduleEntry& entry : program.schedule) {
    file::ScheduleEntry* e = out->add_schedule();
    e->set_phase(static_cast<file::Phase>(entry.phase));
    e->set_chunk(entry.chunk);
    e->set_micro_batch(entry.micro_batch);
    e->set_slot(entry.slot);
  }
  out->set_slots(program.slots);
  out->set_slot_bytes(program.slot_bytes);
}

void write(const DeviceProgram& program, file::Program* out) {
  file::DeviceModel* model = out->mutable_model();
  model->set_name(program.model.name);
  model->set_memory(program.model.memory);
  model->set_flops(program.model.flops);
  model->set_bandwidth(program.model.bandwidth);
  model->set_launch_seconds(program.model.launch_seconds);
  model->set_link_bandwidth(program.model.link_bandwidth);
  model->set_threads(program.model.threads);
  model->set_multiprocessors(program.model.multiprocessors);
  for (const Arena& arena : program.arenas) {
    file::Arena* a = out->add_arenas();
    a->set_kind(static_cast<file::ArenaKind>(arena.kind));
    a->set_bytes(arena.bytes);
    a->set_lower_bound(arena.lower_bound);
  }
  for (const Buffer& buffer : program.buffers) write(buffer, out->add_buffers());
  for (const Step& step : program.steps) write(step, out->add_steps());
  for (const auto& [memory, bytes] : program.memory) {
    file::MemoryUse* use = out->add_memory();
    use->set_memory(static_cast<file::MemoryClass>(memory));
    use->set_bytes(bytes);
  }
  if (!program.schedule.empty()) write_schedule(program, out);
}

void write(const PlanDevice& device, file::Device* out) {
  out->set_backend(device.device.backend);
  out->set_index(device.device.index);
  out->set_program(device.program.index);
  out->set_weight(device.weight);
  out->set_slice_begin(device.slice_begin);
  out->set_slice_size(device.slice_size);
}

void write(const PlanParameter& parameter, file::Parameter* out) {
  out->set_name(parameter.name);
  write(parameter.type, out->mutable_type());
  out->set_source(parameter.source.tag());
  out->set_arena(static_cast<file::ArenaKind>(parameter.arena));
  for (const ProgramPart& part : parameter.parts) {
    file::ParameterPart* p = out->add_parts();
    p->set_program(part.program.index);
    write(part.operand, p->mutable_operand());
    p->set_offset(part.offset);
    for (const ProgramRange& range : part.ranges) {
      file::ProgramRange* r = p->add_ranges();
      r->set_axis(range.axis);
      r->set_cut(range.cut);
      r->set_unit(range.unit);
      r->set_size(range.size);
      r->set_outer(range.outer);
      r->mutable_widths()->Assign(range.widths.begin(), range.widths.end());
    }
  }
  out->set_trainable(parameter.trainable);
  out->set_role(static_cast<file::Role>(parameter.role));
  out->set_of(parameter.of);
}

// Exchanges of the same devices name them together: by the plan's number of them.
using Members = std::map<std::pair<std::vector<int>, int>, int>;

void write(const Exchange& exchange, Members& members, file::Plan* plan) {
  file::Exchange* out = plan->add_exchanges();
  out->set_kind(static_cast<file::Exchange::Kind>(exchange.kind));
  out->set_name(exchange.name);
  out->set_elements(exchange.elements);
  out->set_dtype(static_cast<int>(exchange.dtype));
  for (const std::string& value : exchange.values) out->add_values(value);
  out->set_seconds(exchange.seconds);
  const auto [list, fresh] = members.try_emplace({exchange.devices, exchange.rows}, plan->members_size());
  out->set_members(list->second);
  if (!fresh) return;
  file::Members* added = plan->add_members();
  added->mutable_devices()->Add(exchange.devices.begin(), exchange.devices.end());
  added->set_rows(exchange.rows);
}

void write(const PlanTransfer& transfer, file::Transfer* out) {
  out->set_kind(static_cast<file::Exchange::Kind>(transfer.kind));
  out->set_value(transfer.value);
  out->set_bytes(transfer.bytes);
  out->set_axis(transfer.axis);
  out->set_node(transfer.node);
  out->set_reason(transfer.reason);
}

void write(const PlanRecord& record, file::Record* out) {
  out->set_options(record.options);
  out->set_model(record.model);
  out->set_request(record.request);
  for (const auto& [backend, by] : record.backends) {
    file::Computing* computing = out->add_backends();
    computing->set_backend(backend);
    computing->set_by(by);
  }
  out->set_update(static_cast<int>(record.update));
  out->set_beta1(record.beta1);
  out->set_beta2(record.beta2);
  out->set_steps_before(record.steps_before);
  out->set_learning_rate(record.learning_rate);
  out->set_seed(record.seed);
}

}  // namespace

std::string serialize(const Plan& plan) {
  file::Plan out;
  out.set_format(std::string(plan_format));
  out.set_version(plan.version);
  out.set_model(plan.model);
  out.set_mode(static_cast<file::Plan::Mode>(plan.mode));
  out.set_batch(plan.batch);
  out.set_micro_batches(plan.micro_batches);
  out.set_schedule(plan.schedule);
  out.set_loss(plan.loss);
  out.set_optimizer(plan.optimizer);
  out.set_recompute(plan.recompute);
  out.set_offload(plan.offload);
  out.set_precision(static_cast<file::Plan::Precision>(plan.precision));
  out.mutable_options()->set_threads(plan.options.threads);
  out.mutable_options()->set_deterministic(plan.options.deterministic);
  out.mutable_options()->set_winograd(plan.options.winograd);
  out.mutable_options()->set_tf32(plan.options.tf32);
  out.mutable_options()->set_preference(static_cast<file::KernelOptions::Preference>(plan.options.preference));
  for (const HostInput& input : plan.inputs) {
    file::HostInput* i = out.add_inputs();
    i->set_name(input.name);
    write(input.type, i->mutable_type());
    i->set_batched(input.batched);
    i->set_role(static_cast<file::Role>(input.role));
    i->set_of(input.of);
  }
  for (const HostOutput& output : plan.outputs) {
    file::HostOutput* o = out.add_outputs();
    o->set_name(output.name);
    write(output.type, o->mutable_type());
    o->set_combine(static_cast<file::HostOutput::Combine>(output.combine));
    o->set_parts(output.parts);
    o->set_role(static_cast<file::Role>(output.role));
    o->set_of(output.of);
  }
  for (const AxisCut& cut : plan.cuts) out.add_cuts()->mutable_begins()->Add(cut.begins.begin(), cut.begins.end());
  for (const PlanParameter& parameter : plan.parameters) write(parameter, out.add_parameters());
  Members members;
  for (const Exchange& exchange : plan.exchanges) write(exchange, members, &out);
  for (const PlanTransfer& transfer : plan.transfers) write(transfer, out.add_transfers());
  for (const DeviceProgram& program : plan.programs) write(program, out.add_programs());
  for (const PlanDevice& device : plan.devices) write(device, out.add_devices());
  for (const std::string& warning : plan.warnings) out.add_warnings(warning);
  out.set_seconds(plan.seconds);
  if (plan.record != PlanRecord()) write(plan.record, out.mutable_record());
  out.set_made_from(plan.made_from);

  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!out.SerializeToCodedStream(&coded)) fail(ExitCode::io, "plan of '", plan.model, "' does not fit in a plan file");
  }
  return with_checksum(std::move(bytes));
}

std::uint64_t fingerprint_of(const Plan& plan, std::string_view request) {
  Plan bare = plan;
  bare.made_from = 0;
  Hash hash;
  hash.add(request);
  hash.add(serialize(bare));
  return hash.value();
}

std::string hash_of(const Plan& plan) {
  Hash hash;
  hash.add(serialize(plan));
  return hash.text();
}

}  // namespace tandem
