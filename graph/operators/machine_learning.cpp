// ai.onnx.ml's operators on tables of numbers, which scikit-learn's pipelines put before and behind a model. Their numbers are
// attributes, none of which is trained; linear models', which are, the importer makes parameters (importer/flat/linear_models.cpp).
#include <cmath>
#include <map>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::string_view ml = "ai.onnx.ml";
constexpr TypeSet table_types{DType::float32, DType::float64, DType::int64, DType::int32};

// Floats that these operators give are float32, whatever they are given; where a whole model is read as double, that.
constexpr const char* output_dtype = "output_dtype";
DType float_of(const Attributes& a) { return static_cast<DType>(a.integer(output_dtype, static_cast<std::int64_t>(DType::float32))); }

// Features stand along axis 1, of a lone row along axis 0.
int feature_axis(const Shape& x) { return x.rank() > 1 ? 1 : 0; }
void expect_rows(const InferContext& c) {
  if (c.shape(0).rank() < 1) c.fail("input 0 is ", c.shape(0), ", expected rows of features");
}
void infer_floats(InferContext& c) {
  expect_rows(c);
  c.set_output(0, float_of(c.attributes()), c.shape(0));
}
void follow_rows_of_features(FollowContext& c) {
  if (c.place().axis == feature_axis(c.x())) c.fail("the samples lie along axis ", c.place().axis, ", its features");
  c.set(0, c.place());
}

Floats list_of(const Attributes& a, const char* name) { return a.has(name) ? a.floats(name) : Floats{}; }
void expect_for_features(const InferContext& c, const char* name, std::size_t given) {
  const Shape& x = c.shape(0);
  const std::int64_t features = x[feature_axis(x)];
  if (given != 1 && static_cast<std::int64_t>(given) != features) c.fail(name, " has ", given, " entries, expected 1 or ", features);
}
// A list of one number, or one for each feature of x, so that it broadcasts.
Tensor by_features(const Tensor& list, const Shape& x) {
  if (list.elements() == 1) return list.reshaped(Shape{});
  Shape along(Ints(at(x.rank()), 1));
  along[feature_axis(x)] = list.elements();
  return list.reshaped(along);
}
ValueId known(ExpandContext& e, const char* name, Tensor t) {
  return e.graph().add_constant(concat(e.node().name, '/', name), std::move(t));
}
Tensor tensor_of(const Floats& list) { return Tensor::of<float>(Shape{static_cast<std::int64_t>(list.size())}, list); }
Tensor tensor_of(const Ints& list) { return Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(list.size())}, list); }

std::vector<ValueId> expand_scaler(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const DType to = float_of(a);
  ValueId y = cast(e, e.x(), to);
  const auto factors = [&](const char* name) { return known(e, name, by_features(tensor_of(list_of(a, name)), e.shape(e.x())).cast(to)); };
  if (a.has("offset")) y = e.sub(y, factors("offset"));
  if (a.has("scale")) y = e.mul(y, factors("scale"));
  return {y};
}

// x where its row's divisor is 0
std::vector<ValueId> expand_normalizer(ExpandContext& e) {
  const std::string norm = e.attributes().text("norm", "MAX");
  const DType to = float_of(e.attributes());
  const ValueId x = cast(e, e.x(), to);
  const char* reduce = norm == "MAX" ? "ReduceMax" : norm == "L1" ? "ReduceL1" : "ReduceSumSquare";
  const ValueId sum = e.emit(reduce, {x}, {{"axes", Ints{feature_axis(e.shape(x))}}, {"keepdims", std::int64_t{1}}});
  const ValueId zero = e.emit("Equal", {sum, e.scalar(0, to)});
  const ValueId divisor = e.emit("Where", {zero, e.scalar(1, to), sum});
  return {e.div(x, norm == "L2" ? e.emit("Sqrt", {divisor}) : divisor)};
}

void infer_imputer(InferContext& c) {
  expect_rows(c);
  const bool floats = is_float(c.input(0).dtype);
  const char* name = floats ? "imputed_value_floats" : "imputed_value_int64s";
  if (!c.attributes().has(name)) c.fail(name, " is missing");
  expect_for_features(c, name, floats ? c.attributes().floats(name).size() : c.attributes().ints(name).size());
  infer_same(c);
}
std::vector<ValueId> expand_imputer(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const TensorType x = e.type(e.x());
  const bool floats = is_float(x.dtype);
  const Tensor values = floats ? tensor_of(a.floats("imputed_value_floats")) : tensor_of(a.ints("imputed_value_int64s"));
  const float replaced = a.real("replaced_value_float", 0);
  ValueId missing;
  if (floats && std::isnan(replaced))
    missing = e.emit("IsNaN", {e.x()});
  else if (floats)
    missing = e.emit("Equal", {e.x(), e.scalar(static_cast<double>(replaced), x.dtype)});
  else
    missing = e.emit("Equal", {e.x(), known(e, "replaced", Tensor::scalar(a.integer("replaced_value_int64", 0)).cast(x.dtype))});
  return {e.emit("Where", {missing, known(e, "imputed", by_features(values, x.shape).cast(x.dtype)), e.x()})};
}

// Keys and values of a LabelEncoder, whichever of its attributes hold them.
Tensor entries_of(const Attributes& a, const std::string& what) {
  if (a.has(what + "_tensor")) return a.tensor(what + "_tensor").reshaped(Shape{a.tensor(what + "_tensor").elements()});
  if (a.has(what + "_int64s")) return tensor_of(a.ints(what + "_int64s"));
  if (a.has(what + "_floats")) return tensor_of(a.floats(what + "_floats"));
  if (a.has(what + "_strings")) fail("LabelEncoder: ", what, "_strings: only numbers are supported");
  fail("LabelEncoder: it has no ", what);
}
Tensor default_of(const Attributes& a, const Tensor& values) {
  if (a.has("default_tensor")) return a.tensor("default_tensor").cast(values.dtype());
  const Tensor absent =
      is_float(values.dtype()) ? Tensor::scalar(a.real("default_float", -0.0F)) : Tensor::scalar(a.integer("default_int64", -1));
  return absent.cast(values.dtype());
}
void infer_label_encoder(InferContext& c) {
  const Tensor keys = entries_of(c.attributes(), "keys"), values = entries_of(c.attributes(), "values");
  if (keys.elements() != values.elements()) c.fail("it has ", keys.elements(), " keys and ", values.elements(), " values");
  c.set_output(0, values.dtype() == DType::float32 ? float_of(c.attributes()) : values.dtype(), c.shape(0));
}
// Each element is compared with all keys: the number of the one that it equals, counted from 1, picks the value; 0 the default.
std::vector<ValueId> expand_label_encoder(ExpandContext& e) {
  const Tensor keys = entries_of(e.attributes(), "keys"), values = entries_of(e.attributes(), "values");
  std::map<double, std::size_t> last;  // of equal keys the last counts
  const std::vector<double> k = keys.to_doubles(), v = values.to_doubles();
  std::vector<double> picked = default_of(e.attributes(), values).to_doubles();
  std::optional<std::size_t> nan;
  for (std::size_t i = 0; i < k.size(); ++i) std::isnan(k[i]) ? void(nan = i) : void(last[k[i]] = i);
  std::vector<double> distinct, numbers;
  for (const auto& [key, i] : last) {
    distinct.push_back(key);
    picked.push_back(v[i]);
    numbers.push_back(static_cast<double>(distinct.size()));
  }
  const auto count = static_cast<std::int64_t>(distinct.size());
  const TensorType x = e.type(e.x());
  const DType to = values.dtype() == DType::float32 ? float_of(e.attributes()) : values.dtype();
  ValueId place = e.broadcast_to(e.scalar(0, DType::float32), x.shape);
  if (count > 0) {
    Shape apart = x.shape;
    apart.dims.push_back(1);
    const ValueId equal =
        e.emit("Equal", {e.reshape(e.x(), apart), known(e, "keys", Tensor::of<double>(Shape{count}, distinct).cast(x.dtype))});
    place = e.emit("MatMul",
                   {cast(e, equal, DType::float32), known(e, "numbers", Tensor::of<double>(Shape{count}, numbers).cast(DType::float32))});
  }
  if (nan && is_float(x.dtype)) {
    picked.push_back(v[*nan]);
    place = e.emit("Where", {e.emit("IsNaN", {e.x()}), e.scalar(static_cast<double>(count + 1), DType::float32), place});
  }
  const ValueId table = known(e, "values", Tensor::of<double>(Shape{static_cast<std::int64_t>(picked.size())}, picked).cast(to));
  return {e.emit("Gather", {table, cast(e, place, DType::int64)}, {{"axis", std::int64_t{0}}})};
}

void infer_one_hot_encoder(InferContext& c) {
  if (c.attributes().has("cats_strings")) c.fail("cats_strings: only numbers are supported");
  if (!c.attributes().has("cats_int64s")) c.fail("cats_int64s is missing");
  Shape y = c.shape(0);
  y.dims.push_back(static_cast<std::int64_t>(c.attributes().ints("cats_int64s").size()));
  c.set_output(0, float_of(c.attributes()), y);
}

void infer_feature_extractor(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.rank() < 1) c.fail("input 0 is ", x, ", expected an axis to pick from");
  const std::int64_t picked = c.shape(1).elements();
  c.set_output(0, c.input(0).dtype, x.rank() == 1 ? Shape{1, picked} : with_dim(x, x.rank() - 1, picked));
}
void follow_feature_extractor(FollowContext& c) {
  BatchPlace place = c.place(0);
  if (place.present()) {
    only_operand(c, 0);
    if (place.axis == c.x().rank() - 1) c.fail("it picks from axis ", place.axis, " of ", c.x(), ", which holds the samples");
    return c.set(0, place);
  }
  place = c.place(1);
  for (int i = 0; i < place.axis; ++i) place.outer *= c.x(1)[i];
  c.set(0, {.axis = c.y().rank() - 1, .outer = place.outer});
}

void infer_feature_vectorizer(InferContext& c) {
  const Ints sizes = c.attributes().ints("inputdimensions", {});
  Shape y;
  for (int i = 0; i < c.inputs(); ++i) {
    const Shape x = c.shape(i).rank() == 1 ? Shape{1, c.shape(i)[0]} : c.shape(i);
    if (x.rank() != 2 || (i > 0 && x[0] != y[0])) c.fail("input ", i, " is ", c.shape(i), ", expected [", i > 0 ? y[0] : 1, ",features]");
    if (!sizes.empty() && (sizes.size() != at(c.inputs()) || sizes[at(i)] != x[1]))
      c.fail("inputdimensions is ", to_string(AttributeValue(sizes)), " and input ", i, ' ', x);
    y = i == 0 ? x : with_dim(y, 1, y[1] + x[1]);
  }
  c.set_output(0, float_of(c.attributes()), y);
}
std::vector<ValueId> expand_feature_vectorizer(ExpandContext& e) {
  std::vector<ValueId> parts;
  for (int i = 0; i < static_cast<int>(e.node().inputs.size()); ++i) {
    const Shape x = e.shape(e.x(i));
    parts.push_back(cast(e, e.reshape(e.x(i), x.rank() == 1 ? Shape{1, x[0]} : x), float_of(e.attributes())));
  }
  return {parts.size() == 1 ? parts[0] : e.emit("Concat", std::move(parts), {{"axis", std::int64_t{1}}})};
}

}  // namespace

// Y[..., i] = X[..., Y[i]]
Operator array_feature_extractor() {
  return {.name = "ArrayFeatureExtractor",
          .domain = ml,
          .since = {1},
          .inputs = {2, 2},
          .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer = infer_feature_extractor,
          .follow = follow_feature_extractor,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Shape x = e.shape(e.x(0));
            const std::int64_t picked = e.shape(e.x(1)).elements();
            const ValueId y = e.emit("Gather", {e.x(0), e.reshape(e.x(1), {picked})}, {{"axis", std::int64_t{x.rank() - 1}}});
            return {x.rank() == 1 ? e.reshape(y, {1, picked}) : y};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X", OperandRole::view}, {"Y", OperandRole::index}}};
}

// x > threshold ? 1 : 0
Operator binarizer() {
  return {.name = "Binarizer",
          .domain = ml,
          .since = {1},
          .types = {{"T", table_types}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType dtype = e.type(e.x()).dtype;
            const double threshold = static_cast<double>(e.attributes().real("threshold", 0));  // of integers those above its floor
            const ValueId above = e.emit("Greater", {e.x(), e.scalar(is_float(dtype) ? threshold : std::floor(threshold), dtype)});
            return {e.emit("Where", {above, e.scalar(1, dtype), e.scalar(0, dtype)})};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

Operator feature_vectorizer() {
  return {.name = "FeatureVectorizer", .domain = ml, .since = {1}, .inputs = {1, Arity::any}, .types = {{"T1", table_types}},
          .infer = infer_feature_vectorizer,
          .follow =
              [](FollowContext& c) {
                for (int i = 0; i < c.inputs(); ++i) {
                  if (c.place(i).present() && (c.place(i).axis != 0 || c.x(i).rank() < 2))
                    c.fail("the samples do not lie along axis 0 of its operands");
                  if (!c.place(i).present()) c.repeat(i, 0, 1);
                }
                c.set(0, {.axis = 0, .outer = 1});
              },
          .expand = expand_feature_vectorizer, .type_attribute = output_dtype, .precision = PrecisionRole::parts, .operands = {{"X"}}};
}

// What equals one value becomes another, for all features or for each
Operator imputer() {
  return {.name = "Imputer",
          .domain = ml,
          .since = {1},
          .types = {{"T", table_types}},
          .infer = infer_imputer,
          .follow = follow_rows_of_features,
          .expand = expand_imputer,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

Operator label_encoder() {
  return {.name = "LabelEncoder",
          .domain = ml,
          .since = {1, 2, 4},
          .types = {{"T1", {table_types, {DType::int16}}}},
          .infer = infer_label_encoder,
          .follow = follow_broadcast,
          .differentiate = zero_gradient,
          .expand = expand_label_encoder,
          .type_attribute = output_dtype,
          .precision = PrecisionRole::parts,
          .operands = {{"X", OperandRole::index}}};
}

// Rows by their greatest number, their sum of magnitudes or their length
Operator normalizer() {
  return {.name = "Normalizer",
          .domain = ml,
          .since = {1},
          .types = {{"T", table_types}},
          .infer =
              [](InferContext& c) {
                const std::string norm = c.attributes().text("norm", "MAX");
                if (norm != "MAX" && norm != "L1" && norm != "L2") c.fail("norm is '", norm, "', expected MAX, L1 or L2");
                infer_floats(c);
              },
          .follow = follow_rows_of_features,
          .expand = expand_normalizer,
          .type_attribute = output_dtype,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

// y[..., k] = x equals category k; what is none of them is all zeros
Operator one_hot_encoder() {
  return {.name = "OneHotEncoder", .domain = ml, .since = {1}, .types = {{"T", table_types}},
          .infer = infer_one_hot_encoder,
          .follow = [](FollowContext& c) { c.set(0, c.place()); },
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            Shape apart = e.shape(e.x());
            apart.dims.push_back(1);
            const ValueId x = e.reshape(cast(e, e.x(), DType::int64), apart);
            return {cast(e, e.emit("Equal", {x, known(e, "categories", tensor_of(e.attributes().ints("cats_int64s")))}),
                         float_of(e.attributes()))};
          },
          .type_attribute = output_dtype, .precision = PrecisionRole::parts, .operands = {{"X", OperandRole::index}}};
}

// (x − offset) · scale, by features
Operator scaler() {
  return {.name = "Scaler",
          .domain = ml,
          .since = {1},
          .types = {{"T", table_types}},
          .infer =
              [](InferContext& c) {
                expect_rows(c);
                for (const char* name : {"offset", "scale"})
                  if (c.attributes().has(name)) expect_for_features(c, name, c.attributes().floats(name).size());
                infer_floats(c);
              },
          .follow = follow_rows_of_features,
          .expand = expand_scaler,
          .type_attribute = output_dtype,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
