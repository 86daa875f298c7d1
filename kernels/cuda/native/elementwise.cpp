// Elementwise programs by the interpreter that is compiled beforehand.
#include "kernels/cuda/native/elementwise.h"

#include <algorithm>
#include <bit>

#include "graph/operator.h"
#include "kernels/cuda/launch/launch.h"

namespace tandem::cuda {
namespace {

struct FunctionRow {
  std::string_view op;
  Function function;
  bool integers;  // which have it, too
};
constexpr FunctionRow functions[] = {
#define REAL(name, ...) {#name, Function::name, false},
#define NUMBER(name, ...) {#name, Function::name, true},
    TANDEM_ELEMENTWISE(REAL, NUMBER)
#undef NUMBER
#undef REAL
};

const FunctionRow* find_function(std::string_view op) {
  const auto row = std::find_if(std::begin(functions), std::end(functions), [&](const FunctionRow& f) { return f.op == op; });
  return row != std::end(functions) ? row : nullptr;
}

template <class T>
ElementwiseBody<T> body_of(const ElementwiseProgram& p) {
  ElementwiseBody<T> body{};
  body.elements = p.elements;
  body.inputs = p.inputs;
  body.outputs = static_cast<int>(p.results.size());
  body.instructions = static_cast<int>(p.instructions.size());
  std::copy(p.instructions.begin(), p.instructions.end(), body.program);
  std::copy(p.results.begin(), p.results.end(), body.results);
  std::copy(p.walks.begin(), p.walks.end(), body.walks);
  body.any_strided = std::find(p.walks.begin(), p.walks.end(), Walk::strided) != p.walks.end();
  if (!body.any_strided) return body;
  body.nest.rank = static_cast<int>(p.dims.size());
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    body.nest.sizes[d] = divider(p.dims[d].size);
    for (std::size_t k = 0; k < static_cast<std::size_t>(p.inputs); ++k)
      body.nest.strides[k][d] = static_cast<std::int32_t>(p.dims[d].strides[k + 1]);
  }
  return body;
}

template <class T>
Binder binder_of(ElementwiseProgram program) {
  return [program = std::move(program)](const Buffers& b) -> Launches {
    ElementwiseBody<T> body = body_of<T>(program);
    for (int k = 0; k < body.inputs; ++k) body.in[k] = b.in<T>(static_cast<std::size_t>(k));
    for (int k = 0; k < body.outputs; ++k) body.out[k] = b.out<T>(static_cast<std::size_t>(k));
    const std::int64_t blocks = blocks_for(body.elements, ElementwiseBody<T>::threads);
    return [body, blocks](void* stream) { launch(body, blocks, stream); };
  };
}

// Operators whose attribute chooses between two formulas.
std::string_view formula_of(std::string_view op, const Attributes& attributes) {
  if (op == "Mod" && attributes.integer("fmod", 0) != 0) return "Fmod";
  if (op == "BitShift" && attributes.text("direction", "") == "RIGHT") return "BitShiftRight";
  return op;
}

// An operator by itself as a program of one instruction.
Attributes single_instruction(std::string_view op, const Attributes& given, std::size_t inputs) {
  Floats params(2, 0.0F);
  const Operator* row = find_operator(op);
  if (!row) row = find_operator(op, "tandem");
  for (std::size_t i = 0; row && i < row->parameters.size() && i < params.size(); ++i)
    params[i] = given.real(row->parameters[i].attribute, row->parameters[i].absent);
  Ints args(3, -1);
  for (std::size_t i = 0; i < inputs && i < args.size(); ++i) args[i] = static_cast<std::int64_t>(i);
  return {{"ops", Strings{std::string(formula_of(op, given))}},
          {"args", args},
          {"params", params},
          {"results", Ints{static_cast<std::int64_t>(inputs)}}};
}

std::optional<Binder> binder_of(const ElementwiseProgram& program) {
  std::optional<Binder> binder;
  if (program.dtype != DType::boolean) visit_stored_number(program.dtype, [&]<class T>() { binder = binder_of<T>(program); });
  return binder;
}

}  // namespace

bool has_formula(std::string_view op) { return find_function(op) != nullptr; }

std::optional<ElementwiseProgram> parse_program(const KernelDescription& d, std::string_view op, const Attributes& given) {
  const Attributes attributes = op == "Elementwise" ? given : single_instruction(op, given, d.inputs.size());
  const auto& ops = std::get<Strings>(*attributes.find("ops"));
  const Ints& args = attributes.ints("args");
  const Floats& params = attributes.floats("params");
  const Ints& results = attributes.ints("results");
  if (d.inputs.size() > max_inputs || d.outputs.size() > max_outputs || ops.size() > max_instructions || d.outputs.empty())
    return std::nullopt;
  ElementwiseProgram p;
  p.dtype = d.outputs[0].dtype;
  p.elements = d.outputs[0].shape.elements();
  p.inputs = static_cast<int>(d.inputs.size());
  for (std::size_t j = 0; j < ops.size(); ++j) {
    const FunctionRow* const f = find_function(ops[j]);
    if (!f || (!is_float(p.dtype) && !f->integers)) return std::nullopt;
    const auto operand = [&](std::size_t k) { return static_cast<std::uint8_t>(std::max<std::int64_t>(args[3 * j + k], 0)); };
    if (args[3 * j + 2] >= 0) return std::nullopt;  // no operator of three operands
    p.instructions.push_back({f->function, operand(0), operand(1), params[2 * j], params[2 * j + 1]});
  }
  for (const std::int64_t r : results) p.results.push_back(static_cast<std::uint8_t>(r));

  const Shape& shape = d.outputs[0].shape;
  const std::vector<std::int64_t> out_strides = strides_of(d.outputs[0]);
  std::vector<LoopDim> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) dims.push_back({shape[axis], {out_strides[static_cast<std::size_t>(axis)]}});
  for (const Operand& in : d.inputs) {
    const std::vector<std::int64_t> strides = strides_of(in);
    const int missing = shape.rank() - in.shape.rank();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int own = axis - missing;
      const bool repeated = own < 0 || (in.shape[own] == 1 && shape[axis] != 1);
      dims[static_cast<std::size_t>(axis)].strides.push_back(repeated ? 0 : strides[static_cast<std::size_t>(own)]);
    }
  }
  p.dims = ordered(std::move(dims));
  if (p.dims.size() > max_dims) return std::nullopt;
  for (std::size_t k = 0; k < d.inputs.size(); ++k) {
    bool along = true, repeated = true;
    for (const LoopDim& dim : p.dims) {
      along &= dim.strides[k + 1] == dim.strides[0];
      repeated &= dim.strides[k + 1] == 0;
    }
    p.walks.push_back(repeated ? Walk::repeated : along ? Walk::along : Walk::strided);
  }
  return p;
}

std::vector<KernelDescription> describe_elementwise(const KernelRequest& request, Libraries*) {
  const int rank = request.outputs[0].shape.rank();
  // The layout of the first operand as large as the outputs, so that most is walked in its own order.
  Layout layout = Layout::channels_last(rank);
  const auto chosen = [&](const Operand& o) { return o.shape.rank() == rank && o.layout.plain(); };
  const auto whole = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [&](const Operand& o) { return chosen(o) && o.shape == request.outputs[0].shape; });
  if (whole != request.inputs.end()) layout = whole->layout;
  if (chosen(request.outputs[0])) layout = request.outputs[0].layout;
  KernelDescription d = description_of(request, "native.elementwise", layout);
  for (Operand& o : d.outputs) o.layout = d.outputs[0].layout;
  for (const Operand& o : d.inputs)
    if (o.dtype != d.outputs[0].dtype) return {};
  const std::optional<ElementwiseProgram> program = parse_program(d, request.op, *request.attributes);
  if (!program) return {};
  // Only operands that are walked by their strides need coordinates, which are of 32 bits.
  const bool strided = std::find(program->walks.begin(), program->walks.end(), Walk::strided) != program->walks.end();
  if (strided && !fit_index(d)) return {};
  const std::optional<Binder> binder = binder_of(*program);
  if (!binder) return {};
  // An output may overwrite an input that is read at the same place only.
  for (std::size_t k = 0; k < program->walks.size(); ++k)
    if (program->walks[k] == Walk::along)
      for (std::size_t o = 0; o < d.outputs.size(); ++o) d.in_place.emplace_back(static_cast<int>(o), static_cast<int>(k));
  d.efficiency = 0.8;
  d.make = launches(*binder);
  return {d};
}

}  // namespace tandem::cuda
