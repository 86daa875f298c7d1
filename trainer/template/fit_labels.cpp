// What of the options is as labels and images of the data are; and whether the data fits the model.
#include <algorithm>

#include "planner/check_options.h"
#include "planner/loss/losses.h"
#include "trainer/feed/buckets.h"
#include "trainer/feed/decodable.h"
#include "trainer/template/forms.h"
#include "trainer/template/model_template.h"

namespace tandem {

std::string ModelTemplate::fit_labels(ModelOptions& o, const Dataset& data) const {
  const auto fields = data.fields();
  if (!o.plan.loss.sample_weights)
    o.plan.loss.sample_weights = std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; });
  std::string assumed = assume_loss(o, data);
  ModelOptions plain = o;  // whether labels are indices, which other options want, is found out here
  plain.plan.loss.ignore_index.reset();
  plain.plan.loss.shift_labels = false;
  plain.plan.loss.class_weights.clear();
  const Losses losses = losses_for(plain);  // names what is wrong
  const bool one = losses.size() == 1;
  std::vector<CompileOptions> forms = options_of_losses(o.plan);
  const auto add = [&](const std::string& more) { assumed += concat(assumed.empty() || more.empty() ? "" : "; ", more); };
  const auto fitted = [&](CompileOptions& form, const TensorType& sample) {
    CompileOptions part = of_micro_batch(form);
    std::string text = tandem::fit_labels(graphs(o), part, sample);
    form.loss = std::move(part.loss);
    return text;
  };
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (data.follows_request()) {
      add(o.plan.mode == PlanMode::training ? "" : losses[i].assumed);  // a plan for training says it itself
      continue;
    }
    const auto with = [&](bool named) {
      return std::find_if(fields.begin(), fields.end(),
                          [&](const Field& f) { return f.role == Role::label && (!named || f.name == losses[i].output); });
    };
    const auto field = one || with(true) == fields.end() ? with(false) : with(true);
    CompileOptions& form = one ? o.plan : forms[i];
    if (field == fields.end())
      form.loss.dense_labels = form.loss.dense_labels || (losses[i].sample && is_float(losses[i].sample->dtype));
    else
      add(fitted(form, field->sample));
    if (!one) o.plan.loss.label_forms[losses[i].output] = {form.loss.dense_labels, form.loss.class_axis, form.loss.label_length};
  }
  return assumed;
}

std::string ModelTemplate::check_data(const Dataset& data, const ModelOptions& o, const Preprocess& preprocess) const {
  check_image_files(data, preprocess);
  const auto targets = [&](std::size_t bucket) {
    return targets_of(graphs(o, bucket)(o.micro_batch()), unweighted(losses_for(o, bucket), data), o.plan);
  };
  Feed feed(data, targets(0), preprocess, o.seed);
  feed.check_values(o.plan.loss.name);
  std::vector<std::vector<Shape>> shapes;
  for (std::size_t bucket = 0; bucket < bucket_count(o); ++bucket) {
    shapes.emplace_back();
    for (const FeedTarget& target : targets(bucket)) shapes.back().push_back(target.sample.shape);
  }
  const std::string text = Buckets(feed, std::move(shapes)).text();
  return feed.assumed().empty() || text.empty() ? feed.assumed() + text : concat(feed.assumed(), "; ", text);
}

void ModelTemplate::fit_inputs(ModelOptions& o, const Dataset& data, const Preprocess& preprocess) const {
  o.plan.given_bytes.clear();
  const bool some = std::ranges::any_of(data.fields(), [](const Field& f) { return f.encoded || f.sample.dtype == DType::uint8; });
  if (!some || bucket_count(o) > 1) return;  // no graph is made for nothing
  Feed feed(data, targets_of(graphs(o)(o.micro_batch()), unweighted(losses_if_any(o), data), o.plan), preprocess, o.seed);
  // by the model's axes
  const auto placed = [&](const std::string& name) { return o.plan.placement && o.plan.placement->values.contains(name); };
  for (std::size_t t = 0; t < feed.targets().size(); ++t)
    if (auto bytes = feed.as_bytes(t); bytes && !placed(feed.targets()[t].name))
      o.plan.given_bytes.emplace(feed.targets()[t].name, std::move(*bytes));
}

}  // namespace tandem
