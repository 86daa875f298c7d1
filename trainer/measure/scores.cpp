#include "trainer/measure/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/suggest.h"

namespace tandem {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t widest_confusion = 1000;

struct Row {
  std::string_view name;
  bool classes, binary, numbers;  // has a meaning for
  bool of_scores = false;         // takes all scores, in their order
};
constexpr Row rows[] = {
    {"precision", true, true, false},       {"recall", true, true, false},       {"f1", true, true, false},
    {"precision-micro", true, true, false}, {"recall-micro", true, true, false}, {"f1-micro", true, true, false},
    {"balanced-accuracy", true, true, false}, {"iou", true, true, false},        {"dice", true, true, false},
    {"roc-auc", true, true, false, true},   {"pr-auc", true, true, false, true}, {"perplexity", true, false, false},
    {"mae", false, false, true},            {"rmse", false, false, true},        {"r2", false, false, true},
};
struct Alias {
  std::string_view word, name;
};
constexpr Alias aliases[] = {{"auc", "roc-auc"},
                             {"rocauc", "roc-auc"},
                             {"prauc", "pr-auc"},
                             {"average-precision", "pr-auc"},
                             {"f1-macro", "f1"},
                             {"precision-macro", "precision"},
                             {"recall-macro", "recall"},
                             {"jaccard", "iou"},
                             {"miou", "iou"},
                             {"r-squared", "r2"},
                             {"root_mean_squared_error", "rmse"},
                             {"mean_absolute_error", "mae"},
                             {"sparse_top_k_categorical_accuracy", "top5"},
                             {"top_k_categorical_accuracy", "top5"}};

// K of "topK"; 0: another name.
std::int64_t top_of(std::string_view name) {
  if (!name.starts_with("top") || name.size() < 4 || name.size() > 9) return 0;
  std::int64_t k = 0;
  for (const char c : name.substr(name.find_first_not_of("top-"))) {
    if (c < '0' || c > '9') return 0;
    k = 10 * k + (c - '0');
  }
  return k;
}

std::string canonical(const std::string& name) {
  if (const std::int64_t k = top_of(name); k > 0) return concat("top", k);
  for (const Alias& a : aliases)
    if (a.word == name) return std::string(a.name);
  return name;
}

const Row* row_of(std::string_view name) {
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

bool is_general(std::string_view name) {
  return name.ends_with(".onnx") || name == "auto" || name == "loss" || name == "accuracy" || name == "confusion" || name == "per-class" ||
         name == "none";
}

double share(double part, double whole) { return whole == 0 ? 0 : part / whole; }

using Scored = std::vector<std::pair<float, bool>>;
// The share of pairs of a yes and a no that stand in the right order, half of those that stand alike.
double roc_auc(Scored s) {
  std::sort(s.begin(), s.end());
  double yes = 0, no = 0, pairs = 0;
  for (std::size_t i = 0; i < s.size();) {
    double yes_here = 0, no_here = 0;
    const float at = s[i].first;
    for (; i < s.size() && s[i].first == at; ++i) ++(s[i].second ? yes_here : no_here);
    pairs += yes_here * (no + no_here / 2);
    yes += yes_here;
    no += no_here;
  }
  return yes == 0 || no == 0 ? nan : pairs / (yes * no);
}

// Average precision: the sum over thresholds of precision times the recall that is gained.
double pr_auc(Scored s) {
  std::sort(s.begin(), s.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto all = static_cast<double>(std::count_if(s.begin(), s.end(), [](const auto& e) { return e.second; }));
  double yes = 0, area = 0;
  for (std::size_t i = 0; i < s.size();) {
    double here = 0;
    const float at = s[i].first;
    for (; i < s.size() && s[i].first == at; ++i) here += s[i].second;
    yes += here;
    area += here * yes / static_cast<double>(i);
  }
  return all == 0 ? nan : area / all;
}

}  // namespace

double ClassTable::precision(std::size_t c) const { return share(static_cast<double>(right[c]), static_cast<double>(predicted[c])); }
double ClassTable::recall(std::size_t c) const { return share(static_cast<double>(right[c]), static_cast<double>(support[c])); }
double ClassTable::f1(std::size_t c) const {
  return share(2 * static_cast<double>(right[c]), static_cast<double>(predicted[c] + support[c]));
}
double ClassTable::iou(std::size_t c) const {
  return share(static_cast<double>(right[c]), static_cast<double>(predicted[c] + support[c] - right[c]));
}

std::string metric_names() {
  std::string names = "auto, none, topK (top5)";
  for (const Row& row : rows) names += concat(", ", row.name);
  return names + ", confusion, per-class";
}

std::optional<bool> lower_is_better(std::string_view name) {
  constexpr std::string_view lower[] = {"perplexity", "mae", "rmse"};
  const std::string known = canonical(std::string(name));
  if (top_of(known) > 0) return false;
  return row_of(known) ? std::optional(std::find(std::begin(lower), std::end(lower), known) != std::end(lower)) : std::nullopt;
}

void check_metrics(std::span<const std::string> names) {
  std::vector<std::string> known{"auto", "none", "loss", "accuracy", "confusion", "per-class", "top5"};
  for (const Row& row : rows) known.emplace_back(row.name);
  for (const std::string& name : names)
    if (!is_general(name) && top_of(name) == 0 && !row_of(canonical(name)))
      fail(ExitCode::usage, "metric '", name, "' is unknown", suggestion(name, known));
}

Scores::Scores(const Labels& labels, std::span<const std::string> names, bool lenient) : labels_(labels) {
  check_metrics(names);
  const LabelKind kind = loss_row(labels.loss).labels;
  const bool none = kind == LabelKind::none || kind == LabelKind::sequence;
  if (labels.axis >= 0) kind_ = Kind::classes;
  if (kind == LabelKind::binary) kind_ = Kind::binary;
  single_ = kind_ == Kind::binary && labels.scores.elements() == 1;
  const auto take = [&](const std::string& name) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
  };
  for (const std::string& asked : names) {
    const std::string name = canonical(asked);
    const std::int64_t k = top_of(name);
    const Row* const row = row_of(name);
    if (name == "auto" && !none) {
      constexpr std::int64_t many = 20;
      if (kind_ == Kind::classes && labels.positions() > 1) take(labels.ignore || labels.classes > many ? "perplexity" : "iou");
      if (kind_ == Kind::classes && labels.positions() == 1) take("f1");
      if (kind_ == Kind::classes && labels.classes >= many) take("top5");
      if (kind_ == Kind::binary) take("f1");
      if (single_) take("roc-auc");
      if (kind_ == Kind::numbers && labels.loss != "cosine")
        for (const char* usual : {"mae", "rmse", "r2"}) take(usual);
    }
    if (is_general(name)) continue;
    const bool means = !none && (k > 0                    ? kind_ == Kind::classes
                                 : kind_ == Kind::classes ? row->classes
                                 : kind_ == Kind::binary  ? row->binary
                                                          : row->numbers);
    if (!means && !lenient) fail(ExitCode::usage, "metric '", asked, "' has no meaning for the loss ", labels.loss);
    if (means) take(name);
  }
  for (const std::string& name : names_) {
    if (top_of(name) > 0) tops_.push_back(top_of(name));
    if (const Row* row = row_of(name)) keeps_scores_ = keeps_scores_ || row->of_scores;
    perplexity_ = perplexity_ || name == "perplexity";
  }
  hits_.resize(tops_.size());
  const Shape& s = labels.scores;
  const std::int64_t classes = kind_ == Kind::classes ? s[labels.axis]
                               : single_              ? 2
                               : s.rank() >= 3        ? s[0]
                               : s.rank() > 0         ? s[s.rank() - 1]
                                                      : 1;
  if (kind_ != Kind::numbers && !none) {
    const auto count = static_cast<std::size_t>(classes);
    table_ = {.classes = classes,
              .right = std::vector<std::int64_t>(count),
              .predicted = std::vector<std::int64_t>(count),
              .support = std::vector<std::int64_t>(count),
              .confusion = {}};
    const bool wanted = std::find(names.begin(), names.end(), "confusion") != names.end();
    if (wanted && classes <= widest_confusion && (kind_ == Kind::classes || single_)) table_.confusion.resize(count * count);
    columns_.resize(single_ ? 1 : count);
  } else if (!none) {
    sums_.resize(static_cast<std::size_t>(s.elements()));
  }
}

LossOutputs Scores::wanted() const {
  LossOutputs outputs{.value = keeps_scores_ || (kind_ == Kind::binary && table_.classes > 0) || (!sums_.empty() && !names_.empty())};
  if (kind_ != Kind::classes || table_.classes == 0) return outputs;
  outputs.likelihood = perplexity_;
  outputs.top = 1;
  for (const std::int64_t k : tops_) outputs.top = std::clamp(k, outputs.top, table_.classes);
  return outputs;
}

double Scores::accuracy() const {
  if (rows_ == 0 || !(single_ || (kind_ == Kind::classes && table_.classes > 0))) return nan;
  return static_cast<double>(std::accumulate(table_.right.begin(), table_.right.end(), std::int64_t{0})) / static_cast<double>(rows_);
}

void Scores::add(const Measured& batch) {
  if (kind_ == Kind::classes && table_.classes > 0) add_classes(batch);
  if (kind_ == Kind::classes || !batch.values || (table_.classes == 0 && sums_.empty())) return;
  each_place(labels_, batch, [&](const Place& p) {
    if (kind_ == Kind::binary)
      add_binary(p);
    else
      add_numbers(p);
  });
}

void Scores::count(std::size_t label, std::size_t predicted) {
  ++table_.support[label];
  ++table_.predicted[predicted];
  table_.right[label] += label == predicted;
  if (!table_.confusion.empty()) ++table_.confusion[label * static_cast<std::size_t>(table_.classes) + predicted];
}

void Scores::add_classes(const Measured& batch) {
  each_class(labels_, batch, [&](std::int64_t place, std::int64_t label) {
    const std::int64_t* const top = batch.classes + place * batch.top;
    count(static_cast<std::size_t>(label), static_cast<std::size_t>(*top));
    ++rows_;
    const std::int64_t before = std::find(top, top + batch.top, label) - top;
    for (std::size_t i = 0; i < tops_.size(); ++i) hits_[i] += before < std::min(tops_[i], batch.top);
  });
  likelihood_ = std::accumulate(batch.likelihoods.begin(), batch.likelihoods.end(), likelihood_);
  if (!keeps_scores_) return;
  each_place(labels_, batch, [&](const Place& p) {
    if (p.ignored || p.label < 0) return;
    const double top = *std::max_element(p.x.begin(), p.x.end());
    double sum = 0;
    for (const double v : p.x) sum += std::exp(v - top);
    for (std::size_t c = 0; c < p.x.size(); ++c)
      columns_[c].scores.emplace_back(static_cast<float>(std::exp(p.x[c] - top) / sum), static_cast<std::int64_t>(c) == p.label);
  });
}

void Scores::add_binary(const Place& p) {
  const std::size_t columns = columns_.size(), each = p.x.size() / columns;
  const bool channels = labels_.scores.rank() >= 3;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    const std::size_t c = channels ? i / each : i % columns;
    const bool yes = p.t[i] > 0.5, said = p.x[i] > 0;
    ++rows_;
    if (keeps_scores_) columns_[c].scores.emplace_back(static_cast<float>(p.x[i]), yes);
    if (single_) {
      count(yes, said);
      continue;
    }
    table_.support[c] += yes;
    table_.predicted[c] += said;
    table_.right[c] += yes && said;
  }
}

void Scores::add_numbers(const Place& p) {
  // Places of a last axis lie one after another in a sample.
  const std::size_t first = sums_.size() == p.x.size() ? 0 : static_cast<std::size_t>(rows_) * p.x.size() % sums_.size();
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    Sums& s = sums_[first + i];
    const double d = p.x[i] - p.t[i];
    if (s.count == 0) s.shift = p.t[i];
    const double t = p.t[i] - s.shift;
    s.labels += t;
    s.label_squares += t * t;
    s.squares += d * d;
    absolute_ += std::abs(d);
    ++s.count;
  }
  ++rows_;
}

double Scores::mean_of(double (ClassTable::*of)(std::size_t) const) const {
  if (single_) return (table_.*of)(1);
  double sum = 0, count = 0;
  for (std::size_t c = 0; c < table_.right.size(); ++c) {
    if (kind_ == Kind::classes && table_.support[c] + table_.predicted[c] == 0) continue;
    sum += (table_.*of)(c);
    ++count;
  }
  return share(sum, count);
}

double Scores::value(const std::string& name) const {
  double right = 0, predicted = 0, support = 0;
  for (std::size_t c = 0; c < table_.right.size(); ++c) {
    right += static_cast<double>(table_.right[c]);
    predicted += static_cast<double>(table_.predicted[c]);
    support += static_cast<double>(table_.support[c]);
  }
  const auto mean_over_columns = [&](double (*area)(Scored)) {
    double sum = 0;
    for (const Column& c : columns_) sum += area(c.scores) / static_cast<double>(columns_.size());
    return sum;
  };
  if (name == "precision") return mean_of(&ClassTable::precision);
  if (name == "recall") return mean_of(&ClassTable::recall);
  if (name == "f1" || name == "dice") return mean_of(&ClassTable::f1);
  if (name == "iou") return mean_of(&ClassTable::iou);
  if (name == "precision-micro") return share(right, predicted);
  if (name == "recall-micro") return share(right, support);
  if (name == "f1-micro") return share(2 * right, predicted + support);
  if (name == "balanced-accuracy") {  // the mean recall of the classes that there are
    double sum = 0, count = 0;
    for (std::size_t c = 0; c < table_.right.size(); ++c)
      if (table_.support[c] > 0) {
        sum += table_.recall(c);
        ++count;
      }
    return share(sum, count);
  }
  if (name == "roc-auc") return mean_over_columns(roc_auc);
  if (name == "pr-auc") return mean_over_columns(pr_auc);
  if (name == "perplexity") return std::exp(likelihood_ / static_cast<double>(rows_));
  double squares = 0, count = 0, r2 = 0;
  for (const Sums& s : sums_) {
    const auto n = static_cast<double>(s.count);
    const double spread = s.label_squares - s.labels * s.labels / n;
    squares += s.squares;
    count += n;
    r2 += spread > 0 ? 1 - s.squares / spread : s.squares == 0 ? 1 : 0;
  }
  if (name == "mae") return absolute_ / count;
  if (name == "rmse") return std::sqrt(squares / count);
  return r2 / static_cast<double>(sums_.size());
}

std::map<std::string, double> Scores::values() const {
  std::map<std::string, double> list;
  if (rows_ == 0) return list;
  std::size_t top = 0;
  for (const std::string& name : names_) list[name] = top_of(name) > 0 ? hits_[top++] / static_cast<double>(rows_) : value(name);
  return list;
}

}  // namespace tandem
