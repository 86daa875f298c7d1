#include "cli/choices.h"

#include <algorithm>

#include "base/spec.h"
#include "cli/options.h"
#include "cli/table.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"

namespace tandem {

std::vector<Choice> choices_of(const Arguments& a, const Model& model, const Prepared& run) {
  const auto& [options, fit, data, step] = run;  // step: the file's, whose words are the reason
  const auto& metadata = model.file().metadata();
  const auto by_file = [&](const char* key, const char* otherwise) {
    return metadata.contains(concat("tandem.", key)) ? "as the model was trained" : otherwise;
  };
  const std::string normalize = text_of_normalize(fit.preprocess);
  const auto by_step = [&a, &own = step](const FlagRow& option, std::string otherwise) {
    return own && !a.given(option) ? "as the file's training_info says" : otherwise;
  };
  const auto* const by_data =
      options.plan.loss.name == a.text(loss_flags.loss) ? "the usual one of a classifier" : "the model gives one number for each label";
  const std::string rate = concat(fit.learning_rate.value_or(default_learning_rate(options.plan.optimizer)));
  const bool measured = data.validation && data.validation->size() > 0;
  struct Row {
    std::string what, value, why;
    const FlagRow& option;
  };
  const Row all[] = {
      {"loss", options.plan.loss.name, by_step(loss_flags.loss, by_file("loss", by_data)), loss_flags.loss},
      {"classes", concat(model.data_request(options).classes), "as many as the model's output has", loss_flags.loss},
      {"computed on", options.plan.loss.on.empty() ? "the model's first output" : options.plan.loss.on, by_file("loss_on", "the usual place"),
       loss_flags.loss_on},
      {"optimizer", options.plan.optimizer.name, by_step(optimizer_flags.optimizer, "the default"), optimizer_flags.optimizer},
      {"learning rate", rate, by_step(optimizer_flags.optimizer, concat(options.plan.optimizer.name, "'s usual one")), optimizer_flags.lr},
      {"schedule", a.text(rate_flags.lr_schedule), "the default", rate_flags.lr_schedule},
      {"epochs", concat(fit.epochs), fit.epochs == 0 ? "as many as the steps take" : "the default", train_flags.epochs},
      {"batch size", concat(options.plan.batch / a[optimizer_flags.accumulate]), "the default where it fits in memory", device_flags.batch_size},
      {"normalisation", normalize.empty() ? "none" : normalize, by_file("normalize", "as the data has it, bytes as 0 to 1"),
       data_flags.normalize},
      {"held out", measured ? concat(data.validation->size(), " samples") : "nothing", measured ? "the data has such a part" : "the data has no such part",
       train_flags.validation_split},
      {"first weights", options.init, "the file's, drawn where it has none", train_flags.init},
      {"devices", a[device_flags.devices], a.why(device_flags.devices), device_flags.devices},
  };
  std::vector<Choice> chosen;
  for (const Row& c : all) {
    if (c.what == "classes" && c.value == "0") continue;  // the loss knows none
    if (a.given(c.option) || (&c.option == &train_flags.epochs && a.given(train_flags.steps))) continue;
    chosen.push_back({c.what, c.value, c.why, c.option.flag()});
  }
  return chosen;
}

std::string text_of(const std::vector<Choice>& choices, std::size_t columns) {
  std::vector<std::vector<std::string>> rows;
  for (const Choice& c : choices) rows.push_back({"  " + c.what, c.value, c.why, c.option});
  std::string text = table({{"  chosen"}, {"value"}, {"because", false, 1}, {"overruled by"}}, rows, columns);
  text.pop_back();  // the last line's end
  return text;
}

Json json_of(const std::vector<Choice>& choices) {
  Json::Array list;
  for (const Choice& c : choices) list.push_back(Json::Object{{"what", c.what}, {"value", c.value}, {"why", c.why}, {"option", c.option}});
  return list;
}

}  // namespace tandem
