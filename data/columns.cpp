#include "data/columns.h"

#include <algorithm>
#include <unordered_map>

namespace tandem {
namespace {

constexpr std::string_view label_names[] = {"label", "labels", "target", "class", "cls", "y"};

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return s;
}

class Chooser {
 public:
  Chooser(const Spec& spec, const DataRequest& request, const std::vector<std::string>& columns, const std::vector<bool>& images,
          const std::string& file)
      : spec_(spec), request_(request), columns_(columns), images_(images), file_(file), used_(columns.size()) {
    for (std::size_t i = 0; i < columns.size(); ++i) places_.try_emplace(columns[i], i);
  }

  std::vector<ColumnField> choose(std::vector<std::string>& notes) {
    for (const auto& [key, text] : spec_.options) {  // said by options
      if (const Field* input = input_of(key))
        add({input->name, Role::input, named(text), input->sample});
      else if (key == "x")
        add({"x", Role::input, named(text)});
      else if (key == "y")
        add({"y", Role::label, named(text), request_.label});
      else if (key.starts_with("y."))
        add({key.substr(2), Role::label, named(text)});
      else if (key == "weight")
        add({"sample_weight", Role::weight, named(text)});
    }
    std::string assumed;
    if (!has(Role::weight))
      if (const auto at = input_of("sample_weight") ? columns_.size() : find("sample_weight"); at < columns_.size() && !used_[at]) {
        add({"sample_weight", Role::weight, {at}});
        assumed += ", weights of samples 'sample_weight'";
      }
    // Inputs that are columns, before labels: a model's input may be called "target".
    for (const Field& input : request_.inputs)
      if (const auto at = find(input.name); at < columns_.size() && !used_[at] && !has(input)) {
        add({input.name, Role::input, {at}, input.sample});
        assumed += concat(", input '", input.name, "' the column of its name");
      }
    const bool pictures = std::find(images_.begin(), images_.end(), true) != images_.end();
    const bool inputs_known = has(Role::input) || pictures;
    if (!has(Role::label)) choose_label(inputs_known, assumed);
    if (!has(Role::input)) {
      std::vector<std::size_t> rest, images;
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (!used_[i]) rest.push_back(i);
        if (!used_[i] && i < images_.size() && images_[i]) images.push_back(i);
      }
      if (images.size() > 1)
        fail(ExitCode::data, file_, ": '", columns_[images[0]], "' and '", columns_[images[1]], "' both hold images: x=COLUMN says which");
      if (!images.empty()) rest = images;
      const Field input = request_.inputs.empty() ? Field{.name = "x", .sample = {DType::undefined, {}}} : request_.inputs[0];
      if (rest.empty()) fail(ExitCode::data, file_, ": no column is left for the model's input; it has ", list());
      if (request_.inputs.size() <= 1) {
        assumed +=
            concat(", input ", rest.size() == 1 ? concat("'", columns_[rest[0]], "'")
                                                : concat(rest.size() == columns_.size() ? "all " : "the other ", rest.size(), " columns"));
        add({input.name, Role::input, rest, input.sample});
      }
    }
    for (const Field& input : request_.inputs)
      if (!has(input) && !add_of_lengths(input, assumed))
        fail(ExitCode::data, file_, ": no column for the model's input '", input.name, "' ", input.sample, ": name them by ", input.name,
             "=COLUMN,COLUMN,...; it has ", list());
    if (!assumed.empty()) notes.push_back(concat(file_, ": ", assumed.substr(2), " (", spec_.name, ":FILE,x=...,y=... names others)"));
    if (inputs_known) tell_unused(notes);
    return std::move(fields_);
  }

 private:
  const Field* input_of(std::string_view key) const {
    for (const Field& input : request_.inputs)
      if (input.name == key) return &input;
    return key == "x" && request_.inputs.size() == 1 ? &request_.inputs[0] : nullptr;
  }
  bool has(Role role) const {
    return std::any_of(fields_.begin(), fields_.end(), [&](const ColumnField& f) { return f.role == role; });
  }
  bool has(const Field& input) const {
    return std::any_of(fields_.begin(), fields_.end(), [&](const ColumnField& f) { return f.name == input.name && f.role == Role::input; });
  }
  std::size_t find(std::string_view name) const {
    const auto at = places_.find(name);
    return at == places_.end() ? columns_.size() : at->second;
  }
  std::vector<std::size_t> named(std::string_view text) const {
    std::vector<std::size_t> found;
    if (const std::size_t whole = find(text); whole < columns_.size()) return {whole};  // its name may hold a comma
    for (const std::string& name : split(text, ',')) {
      const std::size_t at = find(name);
      if (at == columns_.size()) fail(ExitCode::usage, file_, ": no column '", name, "'", suggestion(name, columns_));
      found.push_back(at);
    }
    if (found.empty()) fail(ExitCode::usage, file_, ": an empty list of columns");
    return found;
  }
  void add(ColumnField field) {
    for (const std::size_t at : field.columns) used_[at] = true;
    fields_.push_back(std::move(field));
  }
  // Of the first input's lists that are as long as a mask must be, or of the first at all.
  bool add_of_lengths(const Field& input, std::string& assumed) {
    const std::string name = lower(input.name);
    const auto named = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const bool mask = named("mask") && input.sample.shape.rank() == 1,
               length = !mask && (named("length") || named("_lens")) && input.sample.shape.elements() == 1;
    if (!mask && !length) return false;
    const auto of = std::find_if(fields_.begin(), fields_.end(), [&](const ColumnField& f) {
      return f.role == Role::input && f.columns.size() == 1 && f.of_lengths == OfLengths::none &&
             (mask ? f.wanted.shape == input.sample.shape : f.wanted.shape.rank() == 1);
    });
    if (of == fields_.end()) return false;
    const OfLengths kind = length ? OfLengths::length : named("padding") ? OfLengths::padding_mask : OfLengths::mask;
    assumed += concat(", input '", input.name, "' ",
                      length                    ? "how many numbers '"
                      : kind == OfLengths::mask ? "1 where there are numbers, 0 where there are none, in '"
                                                : "0 where there are numbers, 1 where there are none, in '",
                      columns_[of->columns[0]], "'");
    fields_.push_back({input.name, Role::input, of->columns, input.sample, kind});
    return true;
  }
  void choose_label(bool inputs_known, std::string& assumed) {
    std::vector<std::size_t> fitting, ending, rest;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (used_[i]) continue;
      if (i >= images_.size() || !images_[i]) rest.push_back(i);
      if (std::find(std::begin(label_names), std::end(label_names), lower(columns_[i])) != std::end(label_names)) fitting.push_back(i);
      const std::string last = lower(columns_[i].substr(columns_[i].find_last_of("./") + 1));  // "image/class/label"
      if (std::find(std::begin(label_names), std::end(label_names), last) != std::end(label_names)) ending.push_back(i);
    }
    if (fitting.empty()) fitting = ending;
    if (fitting.empty() && !images_.empty() && rest.size() > 1) {  // whose order tells nothing
      if (!request_.training) return;
      fail(ExitCode::data, file_, ": y=COLUMN says which holds the labels; it has ", list());
    }
    // A table of inputs alone, as prediction takes it.
    const bool counted = !inputs_known && request_.inputs.size() == 1 &&
                         static_cast<std::int64_t>(rest.size()) == request_.inputs[0].sample.shape.elements();
    if (fitting.empty() && (counted || rest.empty() || (!inputs_known && rest.size() == 1))) return;
    const std::size_t at = fitting.size() == 1 ? fitting[0] : fitting.empty() ? rest.back() : columns_.size();
    if (at == columns_.size())
      fail(ExitCode::data, file_, ": '", columns_[fitting[0]], "' and '", columns_[fitting[1]],
           "' could both be the labels: y=COLUMN says which");
    assumed += concat(", labels ", fitting.empty() ? "the last column '" : "'", columns_[at], "'");
    add({"y", Role::label, {at}, request_.label});
  }
  void tell_unused(std::vector<std::string>& notes) const {
    std::vector<std::string> unused;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (!used_[i]) unused.push_back(columns_[i]);
    if (unused.empty()) return;
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(unused.size(), 5); ++i) names += concat(i ? ", '" : "'", unused[i], "'");
    notes.push_back(concat(file_, ": not used: ", names, unused.size() > 5 ? concat(" and ", unused.size() - 5, " more columns") : ""));
  }
  std::string list() const {
    std::string s;
    for (std::size_t i = 0; i < std::min<std::size_t>(columns_.size(), 20); ++i) s += concat(i ? ", '" : "'", columns_[i], "'");
    return columns_.size() > 20 ? concat(s, " and ", columns_.size() - 20, " more") : s;
  }

  const Spec& spec_;
  const DataRequest& request_;
  const std::vector<std::string>& columns_;
  const std::vector<bool>& images_;
  const std::string& file_;
  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<bool> used_;
  std::vector<ColumnField> fields_;
};

}  // namespace

std::vector<ColumnField> choose_columns(const Spec& spec, const DataRequest& request, const std::vector<std::string>& columns,
                                        const std::vector<bool>& images, const std::string& file, std::vector<std::string>& notes) {
  return Chooser(spec, request, columns, images, file).choose(notes);
}

void allow_columns(const Spec& spec, const DataRequest& request, std::vector<std::string> others, bool constants) {
  for (const char* key : {"x", "y", "weight"}) others.emplace_back(key);
  for (const Field& input : request.inputs) others.push_back(input.name);
  for (const Field& input : constants ? request.constants : std::vector<Field>{}) others.push_back(input.name);
  for (const auto& [key, value] : spec.options)
    if (!key.starts_with("y.") && std::find(others.begin(), others.end(), key) == others.end())
      fail(ExitCode::usage, "data '", spec.name, "' has no option '", key, "'", suggestion(key, others));
}

}  // namespace tandem
