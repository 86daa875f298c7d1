// A named dimension is followed by its name: the first of an axis 0, unless another is called batch, else any. Where all sizes are numbers
// the batch is axis 0 of the first input, or another of its axes, and in the other inputs one that is as long.
#include "importer/batch/batch_reading.h"
#include "base/option.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

constexpr std::size_t most_readings = 16;

class Reader {
 public:
  Reader(const std::vector<ModelInput>& inputs, const ImportOptions& options) : inputs_(inputs), options_(options) {}

  std::vector<BatchReading> run() {
    for (const std::string& symbol : symbols())
      if (found_.size() < most_readings) add(by_symbol(symbol));
    if (found_.empty() && !open_at_first()) by_size();
    if (found_.empty()) add({.axes = std::vector<int>(inputs_.size(), no_samples), .assumed = std::vector<std::string>(inputs_.size())});
    return std::move(found_);
  }

 private:
  void add(BatchReading reading) {
    if (found_.empty() || reading.any()) found_.push_back(std::move(reading));
  }
  const int* asked(const ModelInput& input) const {
    const auto it = options_.batch_axes.find(input.name);
    return it == options_.batch_axes.end() ? nullptr : &it->second;
  }
  // A dimension whose size nobody gives.
  bool open(const ModelInput& input, std::size_t axis) const {
    return axis < input.dims.size() && input.dims[axis].size < 0 && !given_size(options_, input, axis);
  }
  bool known(const ModelInput& input) const { return options_.constants.contains(input.name); }
  bool open_at_first() const {
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const ModelInput& i) { return open(i, 0); });
  }

  // Names that may be the batch's; "": what has no name, on axis 0.
  std::vector<std::string> symbols() const {
    std::vector<std::string> first, later;
    bool unnamed = false;
    for (const bool values : {false, true})  // inputs whose value is known tell least
      for (const ModelInput& input : inputs_)
        for (std::size_t axis = 0; axis < input.dims.size() && known(input) == values; ++axis) {
          if (!open(input, axis)) continue;
          const std::string& symbol = input.dims[axis].symbol;
          unnamed = unnamed || (axis == 0 && is_anonymous(symbol));
          if (!is_anonymous(symbol)) (axis == 0 ? first : later).push_back(symbol);
        }
    std::vector<std::string> order;
    const auto add = [&](const std::string& symbol) {
      if (std::find(order.begin(), order.end(), symbol) == order.end()) order.push_back(symbol);
    };
    const auto called_batch = [](const std::string& symbol) { return symbol.starts_with("batch"); };
    if (first.empty() || !called_batch(first[0]))
      for (const std::string& symbol : later)
        if (called_batch(symbol)) add(symbol);
    if (!first.empty()) add(first[0]);
    if (first.empty() && unnamed) add("");
    for (const auto* list : {&first, &later})
      for (const std::string& symbol : *list) add(symbol);
    return order;
  }

  BatchReading by_symbol(const std::string& symbol) const {
    BatchReading reading{.axes = {}, .symbolic = true, .assumed = {}};
    const auto begins = [&](const ModelInput& i) { return open(i, 0) && i.dims[0].symbol == symbol; };
    const bool first = symbol.empty() || std::any_of(inputs_.begin(), inputs_.end(), begins);
    for (const ModelInput& input : inputs_) {
      int axis = no_samples;
      std::string assumed;
      for (std::size_t a = 0; a < input.dims.size() && axis < 0 && !symbol.empty(); ++a)
        if (open(input, a) && input.dims[a].symbol == symbol) axis = static_cast<int>(a);
      if (axis < 0 && first && open(input, 0) && !is_another(input.dims[0], symbol)) {
        axis = 0;
        if (!is_anonymous(input.dims[0].symbol))
          assumed = concat("input '", input.name, "': its axis 0, '", input.dims[0].symbol, "', is taken for the batch '", symbol,
                           "'; a size for it (", option("dims"), " ", input.dims[0].symbol, "=SIZE) says otherwise");
      }
      if (const int* wanted = asked(input)) {
        axis = *wanted;
        assumed.clear();
      }
      reading.axes.push_back(axis);
      reading.assumed.push_back(assumed);
    }
    return reading;
  }

  // A symbol other than the batch's that also stands on a later axis: [batch, nodes] beside [nodes, nodes].
  bool is_another(const ModelDim& dim, const std::string& batch) const {
    if (is_anonymous(dim.symbol) || dim.symbol == batch) return false;
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const ModelInput& input) {
      return std::any_of(input.dims.begin() + std::min<std::ptrdiff_t>(1, std::ssize(input.dims)), input.dims.end(),
                         [&](const ModelDim& d) { return d.size < 0 && d.symbol == dim.symbol; });
    });
  }

  // The axes that may hold `samples`, the likeliest first.
  std::vector<int> choices(const ModelInput& input, std::int64_t samples, int likely) const {
    if (const int* wanted = asked(input)) return {*wanted};
    std::vector<int> list;
    const auto add = [&](int axis) {
      const bool fits = axis < std::ssize(input.dims) && input.dims[static_cast<std::size_t>(axis)].size == samples;
      if (fits && std::find(list.begin(), list.end(), axis) == list.end()) list.push_back(axis);
    };
    add(likely);
    if (likely == 0) {  // not as long there: it holds none, or holds them elsewhere
      if (list.empty()) list.push_back(no_samples);
      for (int axis = 1; axis < std::ssize(input.dims); ++axis) add(axis);
    } else {
      for (int axis = 0; axis < std::ssize(input.dims); ++axis) add(axis);
    }
    if (std::find(list.begin(), list.end(), no_samples) == list.end()) list.push_back(no_samples);
    return list;
  }

  // By the first input that may hold samples, along each of its axes.
  void by_size() {
    const auto holds_none = [&](const ModelInput& i) { return i.dims.empty() || known(i) || (asked(i) && *asked(i) < 0); };
    std::size_t base = 0;
    while (base < inputs_.size() && holds_none(inputs_[base])) ++base;
    if (base == inputs_.size()) return;
    const ModelInput& first = inputs_[base];
    if (first.dims[0].size < 0 && !asked(first)) return;  // its size is given: it is no batch
    // Inputs read alike first, each in its likeliest way, its second, and so on; then each in any way.
    for (const bool alike : {true, false})
      for (int axis = 0; axis < std::ssize(first.dims); ++axis) {
        const std::int64_t samples = first.dims[static_cast<std::size_t>(axis)].size;
        if (samples < 1 || (asked(first) && *asked(first) != axis)) continue;
        std::vector<std::vector<int>> all;
        for (std::size_t i = 0; i < inputs_.size(); ++i)
          all.push_back(i == base ? std::vector<int>{axis} : choices(inputs_[i], samples, axis));
        alike ? add_alike(all, samples) : add_all(all, samples);
      }
  }

  void add_by_size(std::vector<int> axes, std::int64_t samples) {
    const auto same = [&](const BatchReading& r) { return r.axes == axes; };
    if (std::any_of(found_.begin(), found_.end(), same)) return;
    add({.axes = std::move(axes), .samples = samples, .assumed = std::vector<std::string>(inputs_.size())});
  }

  void add_alike(const std::vector<std::vector<int>>& choices, std::int64_t samples) {
    std::size_t ways = 0;
    for (const std::vector<int>& c : choices) ways = std::max(ways, c.size());
    for (std::size_t way = 0; way < ways && found_.size() < most_readings; ++way) {
      std::vector<int> axes;
      for (const std::vector<int>& c : choices) axes.push_back(c[std::min(way, c.size() - 1)]);
      add_by_size(std::move(axes), samples);
    }
  }

  void add_all(const std::vector<std::vector<int>>& choices, std::int64_t samples) {
    std::vector<std::size_t> at(choices.size());
    for (bool more = true; more && found_.size() < most_readings;) {
      std::vector<int> axes;
      for (std::size_t i = 0; i < choices.size(); ++i) axes.push_back(choices[i][at[i]]);
      add_by_size(std::move(axes), samples);
      more = false;
      for (std::size_t i = choices.size(); i-- > 0 && !more;) {
        more = ++at[i] < choices[i].size();
        if (!more) at[i] = 0;
      }
    }
  }

  const std::vector<ModelInput>& inputs_;
  const ImportOptions& options_;
  std::vector<BatchReading> found_;
};

}  // namespace

bool BatchReading::any() const {
  return one_sample || std::any_of(axes.begin(), axes.end(), [](int axis) { return axis >= 0; });
}

bool is_anonymous(const std::string& symbol) {
  return symbol.empty() || symbol == "?" || symbol == "None" || symbol.starts_with("unk_");
}

std::string size_name(const ModelInput& input, std::size_t axis) {
  const std::string& symbol = input.dims[axis].symbol;
  return is_anonymous(symbol) ? concat(input.name, ':', axis) : symbol;
}

const std::int64_t* given_size(const ImportOptions& options, const ModelInput& input, std::size_t axis) {
  auto it = options.dims.find(concat(input.name, ':', axis));
  if (it == options.dims.end() && !input.dims[axis].symbol.empty()) it = options.dims.find(input.dims[axis].symbol);
  return it == options.dims.end() ? nullptr : &it->second;
}

std::vector<BatchReading> batch_readings(const std::vector<ModelInput>& inputs, const ImportOptions& options) {
  return Reader(inputs, options).run();
}

}  // namespace tandem
