#include "options/options.h"

#include <algorithm>
#include <vector>

#include "base/printable.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/model_options.h"
#include "options/optimizer_flags.h"
#include "options/predict_flags.h"
#include "options/text.h"
#include "options/train_flags.h"
#include "options/tune_options.h"
#include "options/weight_flags.h"
#include "trainer/devices.h"

namespace tandem {
namespace {

std::vector<const FlagGroup*> groups_for(Purpose purpose) {
  switch (purpose) {
    case Purpose::evaluate: return {&data_flags, &split_flags, &adapter_flags, &loss_flags, &metric_flags, &timing_flags, &device_flags};
    case Purpose::predict: return {&data_flags, &split_flags, &adapter_flags, &predict_flags, &timing_flags, &device_flags};
    default:
      return {&data_flags,   &loss_flags,   &target_flags, &metric_flags, &optimizer_flags, &rate_flags,   &train_flags,
              &output_flags, &record_flags, &weight_flags, &tune_flags,   &adapter_flags,   &device_flags, &placement_flags};
  }
}

// What the command line does with a trained model, with files and with processes.
constexpr const FlagRow* command_line[] = {&rate_flags.exports,
                                           &rate_flags.find_lr,
                                           &rate_flags.find_lr_range,
                                           &train_flags.grace,
                                           &output_flags.keep_external_layout,
                                           &output_flags.keep,
                                           &output_flags.output,
                                           &output_flags.lora_export,
                                           &output_flags.metadata,
                                           &output_flags.export_training_info,
                                           &output_flags.also_training_graph,
                                           &output_flags.dry_run,
                                           &output_flags.verbose,
                                           &record_flags.restart,
                                           &record_flags.overwrite,
                                           &predict_flags.output,
                                           &device_flags.log_placement};
bool is_command_line(const FlagRow* row) {
  return std::ranges::find(command_line, row) != std::end(command_line);
}

std::vector<const FlagRow*> rows_for(Purpose purpose) {
  std::vector<const FlagRow*> rows;
  for (const FlagGroup* group : groups_for(purpose)) rows.insert(rows.end(), group->rows().begin(), group->rows().end());
  return rows;
}

const FlagRow& row_for(Purpose purpose, std::string_view given) {
  std::string name(given);
  std::ranges::replace(name, '_', '-');
  const std::vector<const FlagRow*> rows = rows_for(purpose);
  const FlagRow* row = find_row(rows, name);
  if (!row)
    if (const auto by_field = std::ranges::find(rows, given, [](const FlagRow* r) { return r->field(); }); by_field != rows.end())
      row = *by_field;
  if (!row) unknown_option("option", given, rows, "", ": describe_options() lists them");
  if (is_command_line(row)) fail(ExitCode::usage, row->told(), " is the command line's alone");
  return *row;
}

}  // namespace

Options::Options(Purpose purpose) : purpose_(purpose), values_(std::make_unique<OptionValues>()) {}
Options::~Options() = default;
Options::Options(const Options& other) : purpose_(other.purpose_), values_(std::make_unique<OptionValues>(*other.values_)) {}
Options& Options::operator=(const Options& other) {
  return *this = Options(other);
}
Options::Options(Options&&) noexcept = default;
Options& Options::operator=(Options&&) noexcept = default;

Options Options::parse(std::string_view json, Purpose purpose) {
  Options options(purpose);
  options.set(Json::parse(json));
  return options;
}

void Options::set(std::string_view name, const Json& value) {
  const KeysInMessages keys;
  const FlagRow& row = row_for(purpose_, name);
  if (value.is_null()) return values_->unset(row);
  const std::string text = option_text(row, value);
  row.check(row, text);
  values_->set(row, text);
}

void Options::set(const Json& object) {
  const KeysInMessages keys;
  for (const auto& [name, value] : with_placement(object.object(), "", rows_for(purpose_), ": describe_options() lists them"))
    set(name, value);
}

bool Options::given(std::string_view name) const {
  const KeysInMessages keys;
  return values_->given(row_for(purpose_, name));
}

Options Options::as(Purpose purpose) const {
  Options other(purpose);
  const std::vector<const FlagRow*> rows = rows_for(purpose);
  for (const FlagRow* row : values_->given())
    if (std::ranges::find(rows, row) != rows.end()) other.values_->set(*row, values_->text(*row));
  return other;
}

Json Options::values() const {
  return values_->resolved([](FlagScope) { return true; });
}

WeightOptions Options::weights() const {
  const KeysInMessages keys;
  const bool trains = purpose_ == Purpose::train || purpose_ == Purpose::plan;
  WeightOptions weights = trains ? weight_options(*values_) : adapter_options(*values_);
  weights.own_loss = purpose_ != Purpose::predict && !values_->given(loss_flags.loss);
  if (trains && weights.lora) weights.lora->seed = static_cast<std::uint64_t>((*values_)[train_flags.seed]);
  return weights;
}

RunOptions Options::run(const Model& model, Backends backends, World* world) const {
  const KeysInMessages keys;
  const int ranks = world ? world->ranks() : 1;
  OptionValues values = *values_;
  const DeviceChoice devices = chosen_devices(
      values[device_flags.devices], ranks, [&] { return gpus_of(backends); }, devices_in(values[device_flags.place]));
  if (!devices.why.empty()) values.mean(device_flags.devices, devices.list, devices.why);
  if (values[record_flags.run_dir] == "none") values.set(record_flags.run_dir, "");
  const bool trains = purpose_ == Purpose::train || purpose_ == Purpose::plan;
  RunOptions o = trains ? training_options(values, model, purpose_, ranks) : run_options(values, purpose_, ranks);
  if (purpose_ == Purpose::predict) o.model.outputs = values[predict_flags.outputs];
  o.model.world = world;
  o.adjust_own_optimizer = [adjust = o.adjust_own_optimizer](OptimizerOptions& optimizer) {
    const KeysInMessages also;
    adjust(optimizer);
  };
  if (trains) o.fit.config = values_->resolved();
  return o;
}

Json describe_options(Purpose purpose) {
  Json::Array list;
  std::string title;
  for (const FlagGroup* group : groups_for(purpose)) {
    if (!group->title().empty()) title = group->title();
    for (const FlagRow* row : group->rows())
      if (!is_command_line(row))
        list.push_back(Json::Object{{"name", row->name},
                                    {"field", row->field()},
                                    {"group", title},
                                    {"type", row->type},
                                    {"value", row->value},
                                    {"default", row->is_switch() ? Json(row->is_on_by_default()) : json_of_text(std::string(row->absent))},
                                    {"help", row->help()}});
  }
  return list;
}

}  // namespace tandem
