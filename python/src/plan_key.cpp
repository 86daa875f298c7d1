#include "python/src/plan_key.h"

#include <algorithm>

#include "base/hash.h"
#include "options/data_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"

namespace tandem::python {
namespace {

// What says how long, at which rate and on what is trained, and what is recorded, is no plan's.
bool concerns_plan(std::string_view name) {
  const FlagRow* const of_data[] = {&data_flags.normalize, &data_flags.resize,   &data_flags.workers, &data_flags.on_bad_sample,
                                    &metric_flags.metrics, &metric_flags.metric, &optimizer_flags.lr};
  const auto named = [&](const FlagRow* row) { return row->name == name; };
  return std::ranges::none_of(of_data, named) && std::ranges::none_of(rate_flags.rows(), named) &&
         std::ranges::none_of(record_flags.rows(), named) && std::ranges::none_of(train_flags.rows(), named);
}

std::string hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.text();
}

}  // namespace

std::string plan_key(const Options& options, const ModelOptions& o) {
  Json::Object said, sizes, constants, given;
  const Json resolved = options.values();
  for (const auto& [name, value] : resolved.object())
    if (concerns_plan(name)) said.emplace_back(name, value);
  for (const auto& [name, size] : o.dims) sizes.emplace_back(name, size);
  for (const auto& [name, value] : o.data_constants) constants.emplace_back(name, concat(to_string(value.type()), hash_of(value.bytes())));
  for (const auto& [input, bytes] : o.plan.given_bytes) given.emplace_back(input, hash_of(std::as_bytes(std::span(bytes.table))));
  const LossOptions& loss = o.plan.loss;
  return Json(Json::Object{{"said", std::move(said)},
                           {"sizes", std::move(sizes)},
                           {"constants", std::move(constants)},
                           {"bytes", std::move(given)},
                           {"average", o.plan.optimizer.average},
                           {"loss", loss.name},
                           {"on", loss.on},
                           {"dense", loss.dense_labels},
                           {"sample_weights", loss.sample_weights.value_or(false)},
                           {"label_length", loss.label_length.value_or(0)},
                           {"class_axis", std::int64_t{loss.class_axis.value_or(-1)}},
                           {"class_weights", loss.class_weights}})
      .dump();
}

}  // namespace tandem::python
