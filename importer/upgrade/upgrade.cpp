// One table: an operator, the opset until which an older meaning held, and the function that turns such a node into today's. Rows are
// tried in order, and an operator may have several.
#include "importer/upgrade/upgrade.h"

#include <algorithm>
#include <limits>

#include "importer/upgrade/counted_indices.h"
#include "importer/upgrade/known_parts.h"

namespace tandem {
namespace {

using Outputs = std::optional<std::vector<ValueId>>;
constexpr std::int64_t always = std::numeric_limits<std::int64_t>::max();

ValueId channel_constant(UpgradeContext& c, const char* name, const Floats& values) {
  Shape shape{static_cast<std::int64_t>(values.size())};
  while (shape.rank() < c.shape(0).rank() - 1) shape.dims.push_back(1);
  const Tensor tensor = Tensor::of<float>(shape, values).cast(c.type(c.draft.inputs[0]).dtype);
  return c.graph().add_constant(concat(c.draft.name, '/', name), tensor);
}

// Before opset 13 the axes from `axis` on are one: the same as today where those after it hold one element.
Outputs softmax_over_rest(UpgradeContext& c) {
  const Shape x = c.shape(0);
  const std::int64_t given = c.draft.attributes.integer("axis", 1);
  const int axis = given == x.rank() ? x.rank() : normalize_axis(given, x.rank(), "axis");
  std::int64_t outer = 1, rest = 1, after = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : rest) *= x[i];
  for (int i = axis + 1; i < x.rank(); ++i) after *= x[i];
  if (axis < x.rank() && after == 1) {
    c.draft.attributes.set("axis", std::int64_t{axis});
    return std::nullopt;
  }
  const ValueId flat = c.reshape(c.draft.inputs[0], Shape{outer, rest});
  return {{c.reshape(c.emit(c.draft.op, {flat}, {{"axis", std::int64_t{1}}}), x)}};
}

Outputs softmax_default_axis(UpgradeContext& c) {
  if (!c.draft.attributes.has("axis")) c.draft.attributes.set("axis", std::int64_t{-1});
  return std::nullopt;
}

Outputs batch_normalization_spatial(UpgradeContext& c) {
  if (c.draft.attributes.integer("spatial", 1) != 1) c.fail("spatial=0, statistics for every pixel, is not supported");
  c.draft.attributes.erase("spatial");
  return std::nullopt;
}

// Before opset 14 the further outputs ask for training: mean, var, then saved copies that are gone today.
Outputs batch_normalization_outputs(UpgradeContext& c) {
  if (c.draft.outputs > 3) c.fail("its saved_mean and saved_var outputs are not supported");
  if (c.draft.outputs > 1) c.draft.attributes.set("training_mode", std::int64_t{1});
  return std::nullopt;
}

// Where nothing reads the training outputs the node is one like any other: training is the plan's choice (settle_batch_normalization). But
// for a weight's (own_statistics.h), which is normalized by its own statistics always.
Outputs batch_normalization_mode(UpgradeContext& c) {
  const bool always = c.draft.attributes.has("own_statistics"), asks = c.draft.attributes.integer("training_mode", 0) != 0;
  c.draft.attributes.erase("own_statistics");
  if (c.draft.outputs > 1 || always) return std::nullopt;
  c.draft.attributes.erase("training_mode");
  if (asks) c.draft.attributes.set("asks_for_training", std::int64_t{1});
  return std::nullopt;
}

Outputs upsample(UpgradeContext& c) {
  c.draft.op = "Resize";
  c.draft.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  c.draft.attributes.set("nearest_mode", std::string("floor"));
  if (c.draft.attributes.text("mode", "nearest") == "bilinear") c.draft.attributes.set("mode", std::string("linear"));
  if (c.draft.inputs.size() == 2) c.draft.inputs.insert(c.draft.inputs.begin() + 1, ValueId{});  // roi
  return std::nullopt;
}

// Opset 10: Resize(x, scales).
Outputs resize_10(UpgradeContext& c) {
  if (c.draft.op != "Resize" || c.draft.attributes.has("coordinate_transformation_mode")) return std::nullopt;
  return upsample(c);
}

// Before opset 20 the axis is an attribute.
Outputs dft_axis(UpgradeContext& c) {
  if (!c.draft.attributes.has("axis")) c.draft.attributes.set("axis", std::int64_t{1});
  return std::nullopt;
}

Outputs roi_align_coordinates(UpgradeContext& c) {
  c.draft.attributes.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return std::nullopt;
}

// y = scale · x + bias[channel]; an experiment that left ONNX with opset 10.
Outputs image_scaler(UpgradeContext& c) {
  ValueId y = c.draft.inputs.at(0);
  const float scale = c.draft.attributes.real("scale", 1);
  if (scale != 1) y = c.mul(y, scale);
  const Floats bias = c.draft.attributes.has("bias") ? c.draft.attributes.floats("bias") : Floats{};
  if (std::any_of(bias.begin(), bias.end(), [](float b) { return b != 0; })) y = c.add(y, channel_constant(c, "bias", bias));
  return {{y}};
}

// y = alpha · x + beta
Outputs affine(UpgradeContext& c) {
  return {{c.add(c.mul(c.draft.inputs.at(0), c.draft.attributes.real("alpha", 1)), c.draft.attributes.real("beta", 0))}};
}

// Border: left, top, right, bottom; with `scale`, height and width of what is kept from the left top corner on.
Outputs crop(UpgradeContext& c) {
  const Shape& x = c.shape(0);
  const Ints border = c.draft.attributes.ints("border"), scale = c.draft.attributes.ints("scale", {});
  if (x.rank() != 4 || border.size() != 4 || (!scale.empty() && scale.size() != 2))
    c.fail("expected x [N,C,H,W], four borders and a scale of two");
  const std::int64_t bottom = scale.empty() ? x[2] - border[3] : border[1] + scale[0];
  const std::int64_t right = scale.empty() ? x[3] - border[2] : border[0] + scale[1];
  c.draft.op = "Slice";
  c.draft.attributes = {{"starts", Ints{border[1], border[0]}}, {"ends", Ints{bottom, right}}, {"axes", Ints{2, 3}}};
  return std::nullopt;
}

Outputs cast_like(UpgradeContext& c) {
  c.draft.op = "Cast";
  c.draft.attributes.set("to", static_cast<std::int64_t>(c.type(c.draft.inputs[1]).dtype));
  c.draft.inputs.pop_back();
  return std::nullopt;
}

// A feature of one number a sample, as Core ML declares it: a column.
Outputs feature_columns(UpgradeContext& c) {
  for (ValueId& in : c.draft.inputs)
    if (in.present() && c.graph()[in].depends_on_batch && c.type(in).shape.rank() == 1) in = c.emit("Unsqueeze", {in}, {{"axes", Ints{1}}});
  return std::nullopt;
}

Outputs counted_indices(UpgradeContext& c) {
  count_as_batch(c);
  return std::nullopt;
}

Outputs counted_rows(UpgradeContext& c) {
  count_as_parts(c);
  return std::nullopt;
}

Outputs counted_elements(UpgradeContext& c) {
  count_as_elements(c);
  return std::nullopt;
}

Outputs known_parts(UpgradeContext& c) {
  slice_known_parts(c);
  return std::nullopt;
}

Outputs counted_regions(UpgradeContext& c) {
  count_regions(c);
  return std::nullopt;
}

Outputs scatter(UpgradeContext& c) {
  c.draft.op = "ScatterElements";
  return std::nullopt;
}

// With optimize=False PyTorch's exporter writes a conv3d without bias with zeros of [channels, 2] as bias.
Outputs zero_bias(UpgradeContext& c) {
  if (c.draft.inputs.size() != 3 || !c.draft.inputs[2].present() || !c.draft.inputs[1].present()) return std::nullopt;
  const Value& bias = c.graph()[c.draft.inputs[2]];
  const Shape &b = bias.type.shape, &w = c.graph()[c.draft.inputs[1]].type.shape;
  if (bias.kind != ValueKind::constant || !bias.data || b.rank() != 2 || w.rank() == 0 || b[0] != w[0]) return std::nullopt;
  const std::vector<double> values = bias.data->to_doubles();
  if (std::all_of(values.begin(), values.end(), [](double v) { return v == 0; })) c.draft.inputs.pop_back();
  return std::nullopt;
}

struct Row {
  std::string_view op;
  std::int64_t before;  // for opsets below this one
  Outputs (*apply)(UpgradeContext&);
  std::optional<Renamed> becomes = {};
};
constexpr Row rows[] = {
    {"Affine", 10, affine, {{"Mul", {1, 1}}}},
    {"BatchNormalization", 9, batch_normalization_spatial},
    {"BatchNormalization", 14, batch_normalization_outputs},
    {"BatchNormalization", always, batch_normalization_mode},
    {"CastLike", always, cast_like, {{"Cast", {2, 2}}}},
    {"Conv", always, zero_bias},
    {"Crop", 10, crop, {{"Slice", {1, 1}}}},
    {"FeatureVectorizer", always, feature_columns},
    {"Gather", always, counted_rows},
    {"GatherND", always, counted_indices},
    {"DFT", 20, dft_axis},
    {"Hardmax", 13, softmax_over_rest},
    {"Hardmax", always, softmax_default_axis},
    {"ImageScaler", 10, image_scaler, {{"Mul", {1, 1}}}},
    {"LogSoftmax", 13, softmax_over_rest},
    {"LogSoftmax", always, softmax_default_axis},
    {"Resize", 11, resize_10},
    {"Scatter", always, scatter, {{"ScatterElements", {3, 3}}}},
    {"ScatterElements", always, counted_elements},
    {"ScatterND", always, counted_indices},
    {"RoiAlign", 16, roi_align_coordinates},
    {"RoiAlign", always, counted_regions},
    {"Slice", always, known_parts},
    {"Softmax", 13, softmax_over_rest},
    {"Softmax", always, softmax_default_axis},
    {"Upsample", 10, upsample, {{"Resize", {1, 2}}}},
};

// Attributes that say yes or no, by whether another number than 0 and 1 says yes: as ONNX Runtime reads them. What it refuses then
// (CumSum's and Mod's, storage_order) is refused by the operators' rules.
struct Flag {
  std::string_view name;
  bool others;
};
constexpr Flag flags[] = {
    {"align_corners", true}, {"allowzero", false},   {"antialias", true},   {"ceil_mode", false},       {"center_point_box", false},    {"count_include_pad", true},
    {"detect_negative", true}, {"detect_positive", true}, {"exclude_outside", true}, {"input_forget", true}, {"inverse", true}, {"is_causal", false},
    {"keepdims", false},     {"largest", false},     {"linear_before_reset", true}, {"noop_with_empty_axes", false}, {"onesided", true}, {"periodic", true},
    {"saturate", true},      {"select_last_index", true}, {"sorted", false}, {"training_mode", true},   {"transA", true},               {"transB", true}, {"upper", true},
};

void settle_flags(Attributes& attributes) {
  for (const Flag& flag : flags)
    if (const AttributeValue* const given = attributes.find(flag.name))
      if (const auto* const value = std::get_if<std::int64_t>(given); value && *value != 0 && *value != 1)
        attributes.set(std::string(flag.name), std::int64_t{flag.others});
}

}  // namespace

const Shape& UpgradeContext::shape(int input) {
  if (input >= static_cast<int>(draft.inputs.size()) || !draft.inputs[static_cast<std::size_t>(input)].present())
    fail("input ", input, " is missing");
  return graph()[draft.inputs[static_cast<std::size_t>(input)]].type.shape;
}

std::optional<std::vector<ValueId>> upgrade(Graph& graph, Draft& draft) {
  if (!draft.domain.empty() && draft.domain != "ai.onnx.ml") return std::nullopt;
  if (draft.domain.empty()) settle_flags(draft.attributes);
  UpgradeContext context(graph, draft);
  const std::string op = draft.op;
  for (const Row& row : rows)
    if (row.op == op && draft.opset < row.before)
      if (Outputs outputs = row.apply(context)) return outputs;
  return std::nullopt;
}

std::optional<Renamed> renamed(const std::string& op, std::int64_t opset) {
  for (const Row& row : rows)
    if (row.op == op && opset < row.before && row.becomes) return row.becomes;
  return std::nullopt;
}

}  // namespace tandem
