// Einsum: sums of products over named axes. It is rewritten into transposed views, diagonals and sums of single operands, and one
// product for each further operand, from left to right.
#include <algorithm>
#include <optional>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

// Axes by name: letters, and what an ellipsis stands for, counted from its end, behind them.
using Labels = std::vector<int>;
constexpr int of_ellipsis = 1 << 10;

struct Equation {
  std::vector<Labels> operands;
  Labels output;
};

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
int place_of(const Labels& labels, int label) { return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin()); }

// The labels of one term; `dims` axes stand in place of its ellipsis.
Labels labels_of(std::string_view term, int dims) {
  Labels labels;
  bool ellipsis = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      if (ellipsis) fail("term '", term, "' has two ellipses");
      for (int d = dims; d > 0; --d) labels.push_back(of_ellipsis + d - 1);
      ellipsis = true;
      i += 2;
    } else if ((term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z')) {
      labels.push_back(term[i]);
    } else {
      fail("term '", term, "' holds '", term[i], "', expected letters and one ellipsis");
    }
  }
  return labels;
}

Equation read_equation(std::string text, const std::vector<Shape>& shapes) {
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != shapes.size()) fail("equation '", text, "' has ", terms.size(), " terms for ", shapes.size(), " operands");
  Equation e;
  int widest = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const bool ellipsis = terms[i].find("...") != std::string::npos;
    const int letters = static_cast<int>(terms[i].size()) - (ellipsis ? 3 : 0), dims = ellipsis ? shapes[i].rank() - letters : 0;
    if (dims < 0 || (!ellipsis && letters != shapes[i].rank()))
      fail("term '", terms[i], "' does not name the axes of operand ", i, ' ', shapes[i]);
    e.operands.push_back(labels_of(terms[i], dims));
    widest = std::max(widest, dims);
  }
  if (arrow != std::string::npos) {
    e.output = labels_of(std::string_view(text).substr(arrow + 2), widest);
  } else {  // an ellipsis, then the letters that stand once, in their order
    std::vector<int> all;
    for (const Labels& labels : e.operands) all.insert(all.end(), labels.begin(), labels.end());
    for (int d = widest; d > 0; --d) e.output.push_back(of_ellipsis + d - 1);
    std::sort(all.begin(), all.end());
    for (const int l : all)
      if (l < of_ellipsis && std::count(all.begin(), all.end(), l) == 1) e.output.push_back(l);
  }
  for (const int l : e.output) {
    if (std::count(e.output.begin(), e.output.end(), l) != 1) fail("equation '", text, "' names an axis of the output twice");
    if (std::none_of(e.operands.begin(), e.operands.end(), [&](const Labels& o) { return has(o, l); }))
      fail("equation '", text, "' gives an axis that no operand has");
  }
  return e;
}

// The length of an axis: axes of one element are repeated.
std::int64_t size_of_label(const Equation& e, const std::vector<Shape>& shapes, int label) {
  std::int64_t size = 1;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (int axis = 0; axis < shapes[i].rank(); ++axis) {
      if (e.operands[i][at(axis)] != label || shapes[i][axis] == 1) continue;
      if (size != 1 && size != shapes[i][axis])
        fail("operand ", i, ' ', shapes[i], " has ", shapes[i][axis], " elements along axis ", axis, ", another has ", size, " there");
      size = shapes[i][axis];
    }
  return size;
}

void infer_einsum(InferContext& c) {
  std::vector<Shape> shapes;
  for (int i = 0; i < c.inputs(); ++i) {
    expect_dtype(c, i, c.input(0).dtype);
    shapes.push_back(c.shape(i));
  }
  try {
    const Equation e = read_equation(c.attributes().text("equation"), shapes);
    Shape y;
    for (const int l : e.output) y.dims.push_back(size_of_label(e, shapes, l));
    for (std::size_t i = 0; i < shapes.size(); ++i)
      for (int axis = 0; axis < shapes[i].rank(); ++axis) {
        const Labels& labels = e.operands[i];
        size_of_label(e, shapes, labels[at(axis)]);
        if (shapes[i][place_of(labels, labels[at(axis)])] != shapes[i][axis])
          fail("operand ", i, ' ', shapes[i], " has no diagonal: its axes differ");
      }
    c.set_output(0, c.input(0).dtype, std::move(y));
  } catch (const Error& error) {
    c.fail(error.what());
  }
}

void follow_einsum(FollowContext& c) {
  std::vector<Shape> shapes;
  for (int i = 0; i < c.inputs(); ++i) shapes.push_back(c.x(i));
  const Equation e = read_equation(c.attributes().text("equation"), shapes);
  int label = -1;
  BatchPlace place;
  for (int i = 0; i < c.inputs(); ++i) {
    const BatchPlace own = c.place(i);
    if (!own.present()) continue;
    const int here = e.operands[at(i)][at(own.axis)];
    if (place.present() && (here != label || own.outer != place.outer))
      c.fail("its operands hold the samples at different places: samples would meet");
    label = here;
    place = own;
  }
  if (!has(e.output, label)) c.fail("it sums over axis ", place.axis, ", which holds the samples");
  const std::int64_t size = size_of_label(e, shapes, label);
  for (int i = 0; i < c.inputs(); ++i) {
    const Labels& labels = e.operands[at(i)];
    if (!has(labels, label)) continue;
    const int axis = place_of(labels, label);
    if (std::count(labels.begin(), labels.end(), label) > 1)
      c.fail("it takes a diagonal of input ", i, ' ', c.x(i), " along the axis that holds the samples");
    if (c.place(i).present() && c.x(i)[axis] != size)
      c.fail("input ", i, ' ', c.x(i), " is repeated along the axis that holds the samples");
    if (!c.place(i).present() && c.x(i)[axis] != 1) c.repeat(i, axis, place.outer);
  }
  place.axis = place_of(e.output, label);
  c.set(0, place);
}

// A value whose axes have names.
struct Named {
  ValueId value;
  Labels labels;
};

class Contraction {
 public:
  explicit Contraction(ExpandContext& e) : e_(e) {}

  Named in_order(Named x, const Labels& order) {
    Ints perm;
    for (const int l : order) perm.push_back(place_of(x.labels, l));
    if (order != x.labels) x.value = e_.transpose(x.value, perm);
    return {x.value, order};
  }

  // Without axes of one element where others have more.
  Named narrowed(Named x, const Equation& equation, const std::vector<Shape>& shapes) {
    const Shape shape = e_.shape(x.value);
    Shape kept;
    Labels labels;
    for (int i = 0; i < shape.rank(); ++i) {
      const int l = x.labels[at(i)];
      if (shape[i] == 1 && size_of_label(equation, shapes, l) != 1) continue;
      kept.dims.push_back(shape[i]);
      labels.push_back(l);
    }
    return {e_.reshape(x.value, kept), labels};
  }

  // x[..., i, ..., i, ...] as x[..., i]: every (n + 1)th of the n² elements of both axes.
  Named diagonal(Named x) {
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      const int l = x.labels[i];
      const auto twin = std::find(x.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, x.labels.end(), l);
      if (twin == x.labels.end()) continue;
      const auto j = twin - x.labels.begin();
      Ints perm;
      Labels labels;
      for (std::size_t k = 0; k < x.labels.size(); ++k)
        if (k != i && static_cast<std::ptrdiff_t>(k) != j) {
          perm.push_back(static_cast<std::int64_t>(k));
          labels.push_back(x.labels[k]);
        }
      perm.insert(perm.end(), {static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)});
      Shape shape = e_.shape(x.value);
      const std::int64_t n = shape[static_cast<int>(i)];
      const ValueId turned = perm == all_axes(shape.rank()) ? x.value : e_.transpose(x.value, perm);
      shape = e_.shape(turned);
      shape.dims.pop_back();
      shape.dims.back() = n * n;
      const std::int64_t axis = shape.rank() - 1;
      x.value = e_.emit("Slice", {e_.reshape(turned, shape)},
                        {{"starts", Ints{0}}, {"ends", Ints{n * n}}, {"axes", Ints{axis}}, {"steps", Ints{n + 1}}});
      labels.push_back(l);
      return diagonal({x.value, labels});
    }
    return x;
  }

  Named summed(Named x, const Labels& wanted) {
    Ints axes;
    Labels labels;
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      if (has(wanted, x.labels[i]))
        labels.push_back(x.labels[i]);
      else
        axes.push_back(static_cast<std::int64_t>(i));
    }
    if (axes.empty()) return x;
    return {e_.reduce_sum(x.value, axes, false), labels};
  }

  // Σ a·b over what both have and nobody wants further on.
  Named product(Named a, Named b, const Labels& wanted) {
    Labels all = wanted;
    all.insert(all.end(), b.labels.begin(), b.labels.end());
    a = summed(a, all);
    all = wanted;
    all.insert(all.end(), a.labels.begin(), a.labels.end());
    b = summed(b, all);
    Labels both, only_a, only_b, inside;
    for (const int l : a.labels) (!has(b.labels, l) ? only_a : has(wanted, l) ? both : inside).push_back(l);
    for (const int l : b.labels)
      if (!has(a.labels, l)) only_b.push_back(l);
    Labels result = joined({both, only_a, only_b});
    if (inside.empty() || !is_float(e_.type(a.value).dtype))
      return summed({multiplied(a, b, joined({both, only_a, only_b, inside})), joined({both, only_a, only_b, inside})}, result);
    a = in_order(a, joined({both, only_a, inside}));
    b = in_order(b, joined({both, inside, only_b}));
    const Shape shape_a = e_.shape(a.value), shape_b = e_.shape(b.value);
    const auto end = [](const Labels& labels) { return static_cast<int>(labels.size()); };
    const int batch = end(both), rows = batch + end(only_a), inner = batch + end(inside);
    Shape left(Ints(shape_a.begin(), shape_a.begin() + batch)), right = left, y = left;
    left.dims.insert(left.dims.end(), {tandem::product(shape_a, batch, rows), tandem::product(shape_a, rows, shape_a.rank())});
    right.dims.insert(right.dims.end(), {tandem::product(shape_b, batch, inner), tandem::product(shape_b, inner, shape_b.rank())});
    y.dims.insert(y.dims.end(), shape_a.begin() + batch, shape_a.begin() + rows);
    y.dims.insert(y.dims.end(), shape_b.begin() + inner, shape_b.end());
    return {e_.reshape(e_.emit("MatMul", {e_.reshape(a.value, left), e_.reshape(b.value, right)}), y), result};
  }

 private:
  static Labels joined(std::initializer_list<Labels> lists) {
    Labels all;
    for (const Labels& l : lists) all.insert(all.end(), l.begin(), l.end());
    return all;
  }

  // Element by element along the axes `order`.
  ValueId multiplied(const Named& a, const Named& b, const Labels& order) {
    const auto spread = [&](const Named& x) {
      Labels own;
      for (const int l : order)
        if (has(x.labels, l)) own.push_back(l);
      const Named turned = in_order(x, own);
      Shape shape(Ints(order.size(), 1));
      for (std::size_t i = 0; i < own.size(); ++i) shape[place_of(order, own[i])] = e_.shape(turned.value)[static_cast<int>(i)];
      return e_.reshape(turned.value, shape);
    };
    return e_.mul(spread(a), spread(b));
  }

  ExpandContext& e_;
};

std::vector<ValueId> expand_einsum(ExpandContext& e) {
  const std::size_t n = e.node().inputs.size();
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < n; ++i) shapes.push_back(e.shape(e.x(static_cast<int>(i))));
  const Equation equation = read_equation(e.attributes().text("equation"), shapes);
  Contraction c(e);
  std::vector<Named> operands;
  for (std::size_t i = 0; i < n; ++i)
    operands.push_back(c.narrowed(c.diagonal({e.x(static_cast<int>(i)), equation.operands[i]}), equation, shapes));
  Named y = operands[0];
  for (std::size_t i = 1; i < n; ++i) {
    Labels wanted = equation.output;
    for (std::size_t later = i + 1; later < n; ++later)
      wanted.insert(wanted.end(), operands[later].labels.begin(), operands[later].labels.end());
    y = c.product(y, operands[i], wanted);
  }
  y = c.in_order(c.summed(y, equation.output), equation.output);
  return {y.value};
}

}  // namespace

// y[output] = Σ Π x_i[labels_i] over the labels that the output does not have
Operator einsum() {
  return {.name = "Einsum",
          .since = {12}, .inputs = {1, Arity::any}, .types = {{"T", types::numbers}},
          .infer = infer_einsum,
          .follow = follow_einsum,
          .expand = expand_einsum,
          .precision = PrecisionRole::parts,
          .operands = {{"Inputs"}}};
}

}  // namespace tandem::operator_rows
