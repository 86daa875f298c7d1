// Metrics of an evaluation beside loss and accuracy, over all samples at once: from counts and sums, or from all scores where
// a metric takes their order. Every rank sees all of a batch's outputs, so that they are exact whatever the devices.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/loss/evaluation.h"
#include "trainer/measure/class_table.h"
#include "trainer/measure/metrics.h"

namespace tandem {

// For --help and errors: "top5, precision, ...".
std::string metric_names();
// Of a metric: whether less of it is better; none: there is no metric of that name.
std::optional<bool> lower_is_better(std::string_view name);
// Fails (usage) on a name that no metric has, naming the nearest.
void check_metrics(std::span<const std::string> names);

// As scikit-learn has them. Precision, recall, f1, iou and dice are of "yes" where a sample has one yes or no, else means over
// the classes (macro) that a label or a prediction names; several yes or no of a sample (axis 1 of images, else the last) are
// classes each. NAME-micro counts all together.
class Scores {
 public:
  // "auto" stands for those that people look at with such labels. Fails (usage) on what is unknown; what has no meaning for
  // these labels is left out where `lenient`, as with several losses, else it fails.
  Scores(const Labels& labels, std::span<const std::string> names, bool lenient);
  LossOutputs wanted() const;  // what add() takes of the loss's value, beside the loss
  void add(const Measured& batch);
  double accuracy() const;  // NaN: it has no meaning, or nothing was added
  std::map<std::string, double> values() const;
  const ClassTable* table() const { return table_.classes > 0 ? &table_ : nullptr; }

 private:
  enum class Kind { classes, binary, numbers };
  struct Column {  // scores with whether each is of a yes
    std::vector<std::pair<float, bool>> scores;
  };
  struct Sums {  // of one element of a sample
    double shift = 0, labels = 0, label_squares = 0, squares = 0;
    std::int64_t count = 0;
  };
  void add_classes(const Measured& batch);
  void add_binary(const Place& place);
  void add_numbers(const Place& place);
  void count(std::size_t label, std::size_t predicted);
  double mean_of(double (ClassTable::*of)(std::size_t) const) const;
  double value(const std::string& name) const;

  const Labels& labels_;
  Kind kind_ = Kind::numbers;
  std::vector<std::string> names_;
  std::vector<std::int64_t> tops_;  // k of each topK
  std::vector<double> hits_;
  bool keeps_scores_ = false, perplexity_ = false;
  bool single_ = false;  // one yes or no a sample
  ClassTable table_;
  std::vector<Column> columns_;
  std::vector<Sums> sums_;
  double likelihood_ = 0, absolute_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace tandem
