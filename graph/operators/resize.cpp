// Resize: every sampled axis by a small table (resample.h), made once from the mode, the coordinates and the filter.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/operators/resample.h"

namespace tandem::operator_rows {
namespace {

using Mode = std::string_view;

// How one axis is sampled. Entry i of `size` lies at a place of the n given ones; a scale is size / n where that is what was meant,
// so that places between two entries are exact: numerator / denominator = 1 / scale.
struct Axis {
  std::int64_t n, size;
  double scale, numerator, denominator;
  double begin = 0, end = 1;  // of the part that tf_crop_and_resize takes
};

// ---- where an entry lies ----

struct Coordinates {
  Mode name;
  double (*place)(const Axis& a, double i);
};
double half_pixel(const Axis& a, double i) { return ((2 * i + 1) * a.numerator - a.denominator) / (2 * a.denominator); }
double width(const Axis& a) { return static_cast<double>(a.n) * a.denominator / a.numerator; }  // before it was rounded
constexpr Coordinates coordinates[] = {
    {"align_corners", [](const Axis& a, double i) { return a.size == 1 ? 0 : i * static_cast<double>(a.n - 1) / (width(a) - 1); }},
    {"asymmetric", [](const Axis& a, double i) { return i * a.numerator / a.denominator; }},
    {"half_pixel", half_pixel},
    {"half_pixel_symmetric",
     [](const Axis& a, double i) {
       return static_cast<double>(a.n) / 2 * (1 - static_cast<double>(a.size) / width(a)) + half_pixel(a, i);
     }},
    {"pytorch_half_pixel", [](const Axis& a, double i) { return a.size == 1 ? 0 : half_pixel(a, i); }},
    {"tf_crop_and_resize",
     [](const Axis& a, double i) {
       const double last = static_cast<double>(a.n - 1);
       return a.begin * last + (a.end - a.begin) * (a.size == 1 ? last / 2 : i * last / (width(a) - 1));
     }},
    {"tf_half_pixel_for_nn", [](const Axis& a, double i) { return (2 * i + 1) * a.numerator / (2 * a.denominator); }},  // opset 11
};

// ---- which entries it takes ----

struct NearestMode {
  Mode name;
  double (*round)(double);
};
constexpr NearestMode nearest_modes[] = {
    {"round_prefer_floor", [](double x) { return std::ceil(x - 0.5); }},
    {"round_prefer_ceil", [](double x) { return std::floor(x + 0.5); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
};

struct Filter {
  Mode name;
  int reach;  // it is 0 from there on
  double (*weight)(double distance, double a);
};
constexpr Filter filters[] = {
    {"linear", 1, [](double d, double) { return 1 - d; }},
    {"cubic", 2, [](double d, double a) { return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; }},
};

template <class Row, std::size_t N>
const Row* row_of(const Row (&rows)[N], Mode name) {
  const auto found = std::find_if(rows, rows + N, [&](const Row& r) { return r.name == name; });
  return found == rows + N ? nullptr : found;
}

// The entries around `place`, weighted by the filter, which is as wide as an entry is on the finer side where `stretch` is below 1.
// What lies outside counts as the entry at the border, or not at all.
void add_filtered(ResampleTable& t, const Filter& filter, double place, std::int64_t n, double stretch, double a, bool exclude_outside) {
  const double left = std::ceil(place) - 1;  // the entry before; of a place on an entry the one before that
  const auto first = static_cast<std::int64_t>(std::floor(-filter.reach / stretch)) + 1;
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t k = first; k <= 1 - first; ++k) {
    const double entry = left + static_cast<double>(k), distance = std::abs(stretch * (entry - place));
    const bool counts = distance < filter.reach && !(exclude_outside && (entry < 0 || entry >= static_cast<double>(n)));
    weights.push_back(counts ? filter.weight(distance, a) : 0);
    sum += weights.back();
  }
  if ((stretch == 1 && !exclude_outside) || sum == 0) sum = 1;
  for (std::int64_t k = first; k <= 1 - first; ++k)
    if (const double w = weights[static_cast<std::size_t>(k - first)]; w != 0)
      t.add(static_cast<std::int64_t>(std::clamp(left + static_cast<double>(k), 0.0, static_cast<double>(n - 1))), w / sum);
}

struct AxisTable {
  ResampleTable table;
  std::vector<bool> outside;  // entries that are the extrapolation value
};

// Places are affine in the entry, so that the first and the last tell of all.
bool is_whole(const Axis& axis, const Attributes& a) {
  const Coordinates& where = *row_of(coordinates, a.text("coordinate_transformation_mode"));
  const double last = static_cast<double>(axis.n - 1);
  return axis.n == axis.size && (axis.n == 0 || (where.place(axis, 0) == 0 && where.place(axis, last) == last));
}

AxisTable make_table(const Axis& axis, const Attributes& a) {
  AxisTable made;
  const Mode mode = a.text("mode"), where = a.text("coordinate_transformation_mode");
  const Coordinates& place_of = *row_of(coordinates, where);
  const Filter* filter = row_of(filters, mode);
  const NearestMode& nearest = *row_of(nearest_modes, a.text("nearest_mode"));
  const bool crops = where == "tf_crop_and_resize";
  const double stretch = a.integer("antialias") != 0 ? std::min(1.0, axis.scale) : 1, last = static_cast<double>(axis.n - 1);
  if (filter)
    if (const double taps = 2 * (filter->reach / stretch + 1) * static_cast<double>(axis.size); !(taps <= 4.0 * ResampleTable::most))
      fail("its filter takes ", taps, " entries for an axis of ", axis.size, ", expected at most ", 4 * ResampleTable::most);
  for (std::int64_t i = 0; i < axis.size; ++i) {
    const double place = place_of.place(axis, static_cast<double>(i));
    made.outside.push_back(crops && (place < 0 || place > last));
    if (!made.outside.back() && filter)
      add_filtered(made.table, *filter, place, axis.n, stretch, a.real("cubic_coeff_a"), a.integer("exclude_outside") != 0);
    if (!made.outside.back() && !filter) made.table.add(static_cast<std::int64_t>(std::clamp(nearest.round(place), 0.0, last)));
    made.table.end_entry();
  }
  return made;
}

// ---- the shape rule ----

Floats floats_of(const InferContext& c, const char* name) {
  const AttributeValue* v = c.attributes().find(name);
  if (!v) return {};
  if (const auto* f = std::get_if<Floats>(v)) return *f;
  if (const auto* i = std::get_if<Ints>(v); i && i->empty()) return {};
  if (const auto* t = std::get_if<Tensor>(v); t && t->elements() == 0) return {};
  if (const auto* t = std::get_if<Tensor>(v); t && t->shape().rank() == 1) {
    const std::vector<double> d = t->to_doubles();
    return Floats(d.begin(), d.end());
  }
  c.fail(name, " is ", to_string(*v), ", expected a list of numbers");
}

// Numbers and names, with defaults where there are none.
void settle_formula(InferContext& c) {
  Attributes& a = c.node().attributes;
  const auto choose = [&](const char* name, const char* absent, const auto& rows, const char* expected) {
    const std::string text = a.text(name, absent);
    if (!row_of(rows, text) && !(std::string_view(name) == "mode" && text == "nearest"))
      c.fail(name, " is '", text, "', expected ", expected);
    a.set(name, text);
  };
  choose("mode", "nearest", filters, "nearest, linear or cubic");
  choose("coordinate_transformation_mode", "half_pixel", coordinates,
         "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric or tf_crop_and_resize");
  choose("nearest_mode", "round_prefer_floor", nearest_modes, "round_prefer_floor, round_prefer_ceil, floor or ceil");
  a.set("antialias", a.integer("antialias", 0));
  a.set("exclude_outside", a.integer("exclude_outside", 0));
  a.set("cubic_coeff_a", a.real("cubic_coeff_a", -0.75F));
  a.set("extrapolation_value", a.real("extrapolation_value", 0));
  if (a.text("mode") == "nearest" && a.integer("antialias") != 0) c.fail("antialias is for the modes linear and cubic");
}

void infer_resize(InferContext& c) {
  settle_formula(c);
  const Shape& x = c.shape(0);
  Attributes& a = c.node().attributes;
  Ints axes;  // in the order in which sizes, scales and roi name them
  for (const std::int64_t axis : a.ints("axes", all_axes(x.rank()))) axes.push_back(axis_of(c, axis, x.rank()));
  axes_of(c, axes, x.rank());  // each once
  const Floats scales = floats_of(c, "scales"), roi = floats_of(c, "roi");
  const Ints sizes = static_ints(a, "sizes", {});
  const auto expect_length = [&](const char* name, std::ptrdiff_t length, std::size_t each) {
    if (length != 0 && length != static_cast<std::ptrdiff_t>(each * axes.size()))
      c.fail(name, " has ", length, " entries, expected ", each * axes.size());
  };
  expect_length("scales", std::ssize(scales), 1);
  expect_length("sizes", std::ssize(sizes), 1);
  const bool crops = a.text("coordinate_transformation_mode") == "tf_crop_and_resize";
  if (crops) expect_length("roi", std::ssize(roi), 2);
  if (crops && roi.empty() && !axes.empty()) c.fail("tf_crop_and_resize needs roi");
  if (scales.empty() && sizes.empty() && !axes.empty())
    c.fail("neither scales nor sizes are given, or they are computed from data; they must be known when the plan is made");
  const std::string policy = a.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    c.fail("keep_aspect_ratio_policy is '", policy, "', expected stretch, not_larger or not_smaller");

  Shape y = x;
  Floats all_scales(at(x.rank()), 1), parts(at(2 * x.rank()), 0);
  std::fill(parts.begin() + x.rank(), parts.end(), 1.0F);
  double common = policy == "not_larger" ? INFINITY : 0;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const int axis = static_cast<int>(axes[k]);
    const double n = static_cast<double>(x[axis]);
    if (!scales.empty() && !(scales[k] > 0 && scales[k] < 1e9F)) c.fail("scales holds ", scales[k], " for axis ", axis);
    if (!sizes.empty() && (sizes[k] < 0 || sizes[k] >= std::int64_t{1} << 31)) c.fail("sizes holds ", sizes[k], " for axis ", axis);
    if (!sizes.empty() && !scales.empty() && std::abs(scales[k] * n - static_cast<double>(sizes[k])) > 1)
      c.fail("both scales and sizes are given, and they differ");
    const double size = sizes.empty() ? std::floor(static_cast<float>(x[axis]) * scales[k]) : static_cast<double>(sizes[k]);
    if (!(size < 2147483648.0)) c.fail("axis ", axis, " of ", x, " times ", scales[k], " is too long");
    y[axis] = static_cast<std::int64_t>(size);
    if (x[axis] == 0 && y[axis] > 0) c.fail("axis ", axis, " of x ", x, " is empty, the output's has ", y[axis]);
    all_scales[at(axis)] = scales.empty() ? (n == 0 ? 1 : static_cast<float>(size / n)) : scales[k];
    common = policy == "not_larger" ? std::min(common, size / n) : std::max(common, size / n);
    if (!roi.empty() && crops) {
      if (!std::isfinite(roi[k]) || !std::isfinite(roi[k + axes.size()])) c.fail("roi holds ", roi[k], " and ", roi[k + axes.size()]);
      parts[at(axis)] = roi[k];
      parts[at(axis + x.rank())] = roi[k + axes.size()];
    }
  }
  if (!sizes.empty() && policy != "stretch")
    for (const std::int64_t axis : axes) {
      const double size = std::floor(common * static_cast<double>(x[static_cast<int>(axis)]) + 0.5);
      if (!(size < 2147483648.0)) c.fail("axis ", axis, " of ", x, " times ", common, " is too long");
      y[static_cast<int>(axis)] = static_cast<std::int64_t>(size);
      all_scales[static_cast<std::size_t>(axis)] = static_cast<float>(common);
    }
  a.set("sizes", y.dims);
  a.set("scales", std::move(all_scales));
  for (const char* name : {"axes", "keep_aspect_ratio_policy", "roi"}) a.erase(name);
  if (crops) a.set("roi", std::move(parts));
  c.set_output(0, c.input(0).dtype, std::move(y));
}

Axis axis_of_node(const Shape& x, const Attributes& a, int axis) {
  const double n = static_cast<double>(x[axis]), scale = a.floats("scales")[at(axis)];
  Axis s{x[axis], a.ints("sizes")[at(axis)], scale, 1, scale};
  if (const double size = static_cast<double>(s.size); size > 0 && std::abs(scale * n - size) <= 1e-5 * size) {
    s.scale = size / n;
    s.numerator = n;
    s.denominator = size;
  }
  if (a.has("roi")) {
    s.begin = a.floats("roi")[at(axis)];
    s.end = a.floats("roi")[at(axis + x.rank())];
  }
  return s;
}

// ---- the expansion ----

struct Resampled {
  int axis;
  AxisTable made;
  double growth;
};

// Entries that lie outside along any axis, as a mask that broadcasts against y.
Tensor outside_mask(const std::vector<Resampled>& axes, int rank) {
  Shape shape(Ints(at(rank), 1));
  for (const Resampled& r : axes) shape[r.axis] = r.made.table.size();
  Tensor mask = bounded_tensor({DType::boolean, shape});
  const auto m = mask.write<bool>();
  for (std::size_t i = 0; i < m.size(); ++i)
    for (const Resampled& r : axes) {
      const auto entry = static_cast<std::int64_t>(i) / product(shape, r.axis + 1, rank) % shape[r.axis];
      m[i] = m[i] || r.made.outside[static_cast<std::size_t>(entry)];
    }
  return mask;
}

std::vector<ValueId> expand_resize(ExpandContext& e) {
  const TensorType x = e.type(e.x());
  const Attributes& a = e.attributes();
  std::vector<Resampled> axes;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const Axis s = axis_of_node(x.shape, a, axis);
    if (is_whole(s, a)) continue;
    if (std::max(s.n, s.size) > ResampleTable::most)
      fail("Resize '", e.node().name, "': axis ", axis, " goes from ", s.n, " to ", s.size, " entries, expected at most ",
           ResampleTable::most);
    AxisTable made = make_table(s, a);
    const bool outside = std::find(made.outside.begin(), made.outside.end(), true) != made.outside.end();
    if (outside || !made.table.is_identity(s.n)) axes.push_back({axis, std::move(made), s.scale});
  }
  if (axes.empty()) return {e.x()};
  const DType computed = a.text("mode") == "nearest" || is_float(x.dtype) ? x.dtype
                         : size_of(x.dtype) < 4                           ? DType::float32
                                                                          : DType::float64;
  ValueId y = cast(e, e.x(), computed);

  // Neighbours together; first what makes the tensor small.
  std::vector<std::vector<const Resampled*>> steps;
  for (auto r = axes.rbegin(); r != axes.rend(); ++r) {
    if (!steps.empty() && steps.back().size() == 1 && steps.back()[0]->axis == r->axis + 1)
      steps.back().insert(steps.back().begin(), &*r);
    else
      steps.push_back({&*r});
  }
  const auto growth = [](const auto& step) { return step[0]->growth * (step.size() > 1 ? step[1]->growth : 1); };
  std::stable_sort(steps.begin(), steps.end(), [&](const auto& s, const auto& t) { return growth(s) < growth(t); });
  for (const auto& step : steps)
    y = emit_resample(e, y, step[0]->axis, step[0]->made.table, step.size() > 1 ? &step[1]->made.table : nullptr);

  if (const double value = a.real("extrapolation_value"); value != 0) {
    Tensor mask = outside_mask(axes, x.shape.rank());
    const auto m = mask.values<bool>();
    if (std::find(m.begin(), m.end(), true) != m.end())
      y = e.emit("Where", {e.graph().add_constant(e.node().name + "/outside", std::move(mask)), e.scalar(value, computed), y});
  }
  if (computed != x.dtype) y = cast(e, e.emit("Round", {y}), x.dtype);
  return {y};
}

void follow_resize(FollowContext& c) {
  const int axis = c.place().axis;
  const Axis s = axis_of_node(c.x(), c.attributes(), axis);
  if (s.n != s.size || (c.attributes().has("roi") && (s.begin != 0 || s.end != 1)))
    c.fail("it resizes axis ", axis, " of ", c.x(), ", which holds the samples");
  c.set(0, c.place());
}

}  // namespace

// y = x resized to `sizes`, or by `scales`, along `axes`
Operator resize() {
  return {.name = "Resize",
          .since = {10, 11, 13, 18, 19},
          .inputs = {1, 4},
          .types = {{"T1", types::all}, {"T2", types::floats}, {"tensor(float)", types::floats}, {"tensor(int64)", types::integers_64}},
          .infer = infer_resize,
          .follow = follow_resize,
          .expand = expand_resize,
          .static_operands = {{1, "roi"}, {2, "scales"}, {3, "sizes"}},
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
