// The loss of a model that gives one number for each sample or place, where nobody chose one: softmax-cross-entropy, which the others_
// get, would be 0 whatever the model gives.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/option.h"
#include "planner/check_options.h"
#include "planner/loss/labels.h"
#include "trainer/template/forms.h"
#include "trainer/template/model_template.h"

namespace tandem {
namespace {

// What all labels of a field have in common.
struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  bool yes_or_no = true;  // each is 0 or 1
};

Range range_of(const Dataset& data, std::size_t field) {
  const TensorType& type = data.fields()[field].sample;
  const std::int64_t each = type.shape.elements();
  constexpr std::int64_t chunk_elements = std::int64_t{1} << 20;
  const std::int64_t chunk = std::max<std::int64_t>(1, chunk_elements / std::max<std::int64_t>(1, each));
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(chunk, data.size()) * each) * size_of(type.dtype));
  std::vector<std::int64_t> samples(static_cast<std::size_t>(std::min(chunk, data.size())));
  Range range;
  for (std::int64_t first = 0; first < data.size(); first += chunk) {
    samples.resize(static_cast<std::size_t>(std::min(chunk, data.size() - first)));
    std::iota(samples.begin(), samples.end(), first);
    data.read(field, samples, bytes.data());
    visit_number(type.dtype, [&]<class T>() {
      const std::span values(reinterpret_cast<const T*>(bytes.data()), samples.size() * static_cast<std::size_t>(each));
      for (const T v : values) {
        const double x = static_cast<double>(v);
        range.least = std::min(range.least, x);
        range.most = std::max(range.most, x);
        range.yes_or_no = range.yes_or_no && (x == 0 || x == 1);
      }
    });
  }
  return range;
}

std::string without_labels(const std::string& loss) {
  return concat("the model gives one number for each label, and no data says what that is: the loss is ", loss, " (", option("loss"),
                " names another)");
}

}  // namespace

std::string ModelTemplate::assume_loss(ModelOptions& o) const {
  std::string loss;
  try {
    loss = loss_of_one_number(graphs_with_losses(in_bucket(o)), of_micro_batch(o.plan));
  } catch (const Error&) {
    if (o.plan.mode != PlanMode::training) return "";  // what only predicts may have no loss
    losses_for(o);                              // says it better
    throw;
  }
  o.plan.loss.assumed = !loss.empty();
  if (loss.empty()) return "";
  o.plan.loss.name = loss;
  return without_labels(loss);
}

std::string ModelTemplate::assume_loss(ModelOptions& o, const Dataset& data) const {
  if (!o.plan.loss.assumed) return "";
  const auto fields = data.fields();
  const auto label = std::find_if(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::label; });
  if (label == fields.end() || data.size() == 0 || data.iterable() || data.follows_request()) return without_labels(o.plan.loss.name);
  const bool sigmoid = o.plan.loss.name == "binary-cross-entropy";
  const Range range = range_of(data, static_cast<std::size_t>(label - fields.begin()));
  const auto labels = [&] { return concat("labels '", label->name, "' of ", text_of(range.least), " to ", text_of(range.most)); };
  if (sigmoid && !(range.least >= 0 && range.most <= 1))
    fail(ExitCode::usage, data.name(), ": the model gives one number of 0 to 1 for each label, a sigmoid, and has ", labels(), ": ",
         option("loss"), " names what compares them, such as mse");
  if (!sigmoid && !range.yes_or_no && !is_float(label->sample.dtype))
    fail(ExitCode::usage, data.name(), ": the model gives one number for each label, and has ", labels(), ", whole numbers: ",
         option("loss"), " mse takes them for numbers; of classes a model gives a score each (", option("head"), ' ',
         text_of(std::max(2.0, range.most + 1)), ')');
  o.plan.loss.name = sigmoid || range.yes_or_no ? "binary-cross-entropy" : "mse";
  o.plan.loss.assumed = false;
  const char* const what = sigmoid ? "a sigmoid" : range.yes_or_no ? "and these are 0 and 1" : "and these are numbers";
  return concat("the model gives one number for each label, ", what, ": the loss is ", o.plan.loss.name, " (", option("loss"),
                " names another)");
}

}  // namespace tandem
