#include "graph/updates.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tandem {
namespace {

constexpr UpdateRow rows[] = {
    {"SgdUpdate", "native.sgd", UpdateKind::sgd},          {"RmspropUpdate", "native.rmsprop", UpdateKind::rmsprop},
    {"AdamUpdate", "native.adam", UpdateKind::adam},       {"NadamUpdate", "native.nadam", UpdateKind::nadam},
    {"RadamUpdate", "native.radam", UpdateKind::radam},    {"AdagradUpdate", "native.adagrad", UpdateKind::adagrad},
    {"AdadeltaUpdate", "native.adadelta", UpdateKind::adadelta}, {"AdamaxUpdate", "native.adamax", UpdateKind::adamax},
    {"LionUpdate", "native.lion", UpdateKind::lion},       {"LambUpdate", "native.lamb", UpdateKind::lamb},
    {"LarsUpdate", "native.lars", UpdateKind::lars},       {"AssignUpdate", "native.assign", UpdateKind::assign},
};

// The number that was written: the shortest that gives this float.
double as_written(float x) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  double value = static_cast<double>(x);
  std::from_chars(text, end, value);
  return value;
}

}  // namespace

std::span<const UpdateRow> update_rows() { return rows; }

const UpdateRow* find_update(std::string_view op) {
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const UpdateRow& r) { return r.op == op; });
  return row == std::end(rows) ? nullptr : row;
}

std::vector<UpdateState> update_states(UpdateKind kind, const Attributes& a) {
  const bool momentum = a.real("momentum", 0) != 0;
  std::vector<UpdateState> list;
  switch (kind) {
    case UpdateKind::sgd:
    case UpdateKind::lars:
      if (momentum) list = {{"momentum", 0}};
      return list;
    case UpdateKind::rmsprop:
      list = {{"rmsprop_s", 0}};
      if (a.integer("centered", 0) != 0) list.push_back({"rmsprop_mean", 1});
      if (momentum) list.push_back({"momentum", 2});
      return list;
    case UpdateKind::adam:
    case UpdateKind::adam_hat:
      list = {{"adam_m", 0}, {"adam_v", 1}};
      if (a.integer("amsgrad", 0) != 0) list.push_back({"adam_max", 2});
      return list;
    case UpdateKind::nadam: return {{"nadam_m", 0}, {"nadam_v", 1}};
    case UpdateKind::radam: return {{"radam_m", 0}, {"radam_v", 1}};
    case UpdateKind::adagrad: return {{"adagrad_s", 0}};
    case UpdateKind::adadelta: return {{"adadelta_s", 0}, {"adadelta_d", 1}};
    case UpdateKind::adamax: return {{"adamax_m", 0}, {"adamax_u", 1}};
    case UpdateKind::lion: return {{"lion_m", 0}};
    case UpdateKind::lamb: return {{"lamb_m", 0}, {"lamb_v", 1}};
    case UpdateKind::assign: return {};
  }
  return list;
}

UpdateNumbers update_numbers(UpdateKind kind, const Attributes& a) {
  const auto real = [&](std::string_view name, float absent = 0) { return as_written(a.real(name, absent)); };
  const auto flag = [&](std::string_view name) { return a.integer(name, 0) != 0; };
  UpdateNumbers n{.kind = kind,
                  .nesterov = flag("nesterov"), .decoupled = flag("decoupled"), .amsgrad = flag("amsgrad"), .centered = flag("centered"),
                  .average = flag("average"), .copies = flag("copies"),
                  .rate = real("rate", 1), .from = real("from"),
                  .weight_decay = real("weight_decay"), .momentum = real("momentum"), .dampening = real("dampening"),
                  .beta1 = a.has("rho") ? real("rho") : real("beta1"), .beta2 = real("beta2"), .epsilon = real("epsilon"),
                  .rate_decay = real("rate_decay"), .trust = real("trust"),
                  .clip_value = real("clip_value"), .clip_norm = real("clip_norm"),
                  .own = update_states(kind, a)};
  n.states = static_cast<int>(n.own.size()) + n.average;
  return n;
}

UpdateOperands::UpdateOperands(const Attributes& attributes, std::size_t inputs)
    : tensors(static_cast<std::size_t>(std::max<std::int64_t>(0, attributes.integer("tensors")))),
      each(tensors > 0 ? (inputs - 1) / tensors : 0) {}

double unbiased(double n) { return std::isfinite(n) && n > 1 ? n / (n - 1) : 1; }

double statistic_share(const Attributes& attributes, std::size_t t) {
  const double count = attributes.has("counts") ? static_cast<double>(attributes.ints("counts").at(t)) : 1;
  return (1 - static_cast<double>(attributes.real("momentum"))) * unbiased(count);
}

}  // namespace tandem
