// Elementwise programs, and elementwise operators by themselves as programs of one instruction.
#include "kernels/cpu/native/elementwise.h"

#include "graph/operator.h"
#include "graph/small_types.h"
#include "kernels/precision.h"

namespace tandem::native {
namespace {

// One instruction as the request names it: args are operands of the request.
struct Call {
  std::string_view op;
  int args[3];
  double params[2];
};

// Operators whose attribute chooses between two formulas.
std::string_view formula_of(std::string_view op, const Attributes& attributes) {
  if (op == "Mod" && attributes.integer("fmod", 0) != 0) return "fmod";
  if (op == "BitShift" && attributes.text("direction", "") == "RIGHT") return "BitShiftRight";
  return op;
}

std::vector<Call> calls_of(const KernelRequest& request) {
  const Attributes& attributes = *request.attributes;
  std::vector<Call> calls;
  if (request.op == "Elementwise") {
    const Strings& ops = std::get<Strings>(*attributes.find("ops"));
    const Ints& args = attributes.ints("args");
    const Floats& params = attributes.floats("params");
    for (std::size_t j = 0; j < ops.size(); ++j) {
      Call call{ops[j], {-1, -1, -1}, {params[2 * j], params[2 * j + 1]}};
      for (std::size_t k = 0; k < 3; ++k) call.args[k] = static_cast<int>(args[3 * j + k]);
      calls.push_back(call);
    }
    return calls;
  }
  Call call{formula_of(request.op, attributes), {-1, -1, -1}, {0, 0}};
  for (int k = 0; k < 3 && k < static_cast<int>(request.inputs.size()); ++k) call.args[k] = k;
  const auto& parameters = internal_operator(request.op).parameters;
  for (std::size_t k = 0; k < parameters.size() && k < 2; ++k)
    call.params[k] = attributes.real(parameters[k].attribute, parameters[k].absent);
  if (request.op == "Cast") {
    const DType in = request.inputs[0].dtype, out = request.outputs[0].dtype;
    const SmallRounding rounding = rounding_of(attributes);
    call.params[0] = static_cast<double>(is_small(in) ? in : out);
    call.params[1] = (rounding.saturate ? 1 : 0) + 2 * static_cast<int>(rounding.mode);
  }
  return {call};
}

// The loops of all calls on these types; empty where one is missing.
std::vector<Micro> loops_of(const std::vector<Call>& calls, DType in, DType out) {
  std::vector<Micro> loops;
  for (const Call& call : calls) {
    const auto micro = find_micro(call.op, in, out);
    const auto args = std::count_if(std::begin(call.args), std::end(call.args), [](int a) { return a >= 0; });
    if (!micro || micro->arity != args) return {};
    loops.push_back(*micro);
  }
  return loops;
}

DType widened(DType t) { return is_16_bit(t) ? DType::float32 : t; }

// Without what depends on layouts. Nothing where an instruction has no loop for its types. 16-bit floats become float32
// as they are loaded, and are rounded once, when the result is stored; an instruction by itself may do that in one loop.
std::optional<Program> program_of(const KernelRequest& request) {
  Program p{.inputs = request.inputs, .outputs = request.outputs, .code = {}, .results = {}, .threads = request.options.threads};
  for (const Operand& in : p.inputs)
    if (!in.present()) return std::nullopt;
  const std::vector<Call> calls = calls_of(request);
  const DType in = p.inputs.back().dtype, out = p.outputs[0].dtype;
  std::vector<Micro> loops = calls.size() > 1 && is_16_bit(in) ? std::vector<Micro>{} : loops_of(calls, in, out);
  const bool widen = loops.empty() && is_16_bit(in);
  if (widen) loops = loops_of(calls, DType::float32, widened(out));
  if (loops.empty()) return std::nullopt;

  const int inputs = static_cast<int>(p.inputs.size());
  const auto add = [&](const Instruction& code) {
    p.code.push_back(code);
    return inputs + static_cast<int>(p.code.size()) - 1;
  };
  const auto cast = [&](int operand, DType from, DType to) {
    return add({find_micro("Cast", from, to)->run, {operand, -1, -1}, {0, 0}, to});
  };
  std::vector<int> place;  // in the program, of each operand of the request
  for (int i = 0; i < inputs; ++i) {
    const DType dtype = p.inputs[static_cast<std::size_t>(i)].dtype;
    place.push_back(widen && is_16_bit(dtype) ? cast(i, dtype, DType::float32) : i);
  }
  for (std::size_t j = 0; j < calls.size(); ++j) {
    Instruction code{loops[j].run, {-1, -1, -1}, {calls[j].params[0], calls[j].params[1]}, widen ? widened(out) : out};
    for (std::size_t k = 0; k < 3; ++k)
      if (calls[j].args[k] >= 0) code.args[k] = place[static_cast<std::size_t>(calls[j].args[k])];
    place.push_back(add(code));
  }
  const Ints results = request.op == "Elementwise" ? request.attributes->ints("results") : Ints{inputs};
  for (const std::int64_t r : results) p.results.push_back(place[static_cast<std::size_t>(r)]);
  if (widen && is_16_bit(out))
    for (int& r : p.results) r = cast(r, DType::float32, out);
  // An input, or one value twice, as a result is a copy.
  for (std::size_t i = 0; i < p.results.size(); ++i) {
    const bool twice = std::find(p.results.begin(), p.results.begin() + static_cast<std::ptrdiff_t>(i), p.results[i]) !=
                       p.results.begin() + static_cast<std::ptrdiff_t>(i);
    if (p.results[i] >= inputs && !twice) continue;
    const DType dtype = p.outputs[i].dtype;
    p.code.push_back({find_micro("Identity", dtype, dtype)->run, {p.results[i], -1, -1}, {0, 0}, dtype});
    p.results[i] = inputs + static_cast<int>(p.code.size()) - 1;
  }
  return p;
}

// An output may overwrite an input that no later instruction reads.
std::vector<std::pair<int, int>> in_place_pairs(const Program& p) {
  std::vector<std::pair<int, int>> pairs;
  const int inputs = static_cast<int>(p.inputs.size());
  for (std::size_t o = 0; o < p.results.size(); ++o)
    for (int i = 0; i < inputs; ++i) {
      const Operand& in = p.inputs[static_cast<std::size_t>(i)];
      if (!runs_along(in, p.outputs[o]) || size_of(in.dtype) != size_of(p.outputs[o].dtype)) continue;
      bool read_later = false;
      for (std::size_t j = static_cast<std::size_t>(p.results[o] - inputs) + 1; j < p.code.size(); ++j)
        for (const int a : p.code[j].args) read_later = read_later || a == i;
      if (!read_later) pairs.push_back({static_cast<int>(o), i});
    }
  return pairs;
}

// What a broadcast operand must lie in to be read beside `layout`: any plain layout, or that one.
Layout readable(const Operand& in, const Layout& layout, int rank) {
  if (in.layout.plain() || (in.layout == layout && in.shape.rank() == rank)) return in.layout;
  return Layout::row_major(in.shape.rank());
}

}  // namespace

Descriptions describe_elementwise(const KernelRequest& request) {
  std::optional<Program> program = program_of(request);
  if (!program) return {};
  // The layouts that full operands come in, each a way to run it.
  const Shape& shape = request.outputs[0].shape;
  std::vector<Layout> layouts;
  const auto offer = [&](const Operand& operand) {
    if (!operand.layout.any() && !operand.layout.opaque() && std::find(layouts.begin(), layouts.end(), operand.layout) == layouts.end())
      layouts.push_back(operand.layout);
  };
  for (const Operand& out : request.outputs) offer(out);
  for (const Operand& in : request.inputs)
    if (in.shape.rank() == shape.rank() && !is_broadcast(in, shape)) offer(in);
  if (layouts.empty()) layouts.push_back(Layout::row_major(shape.rank()));

  Descriptions all;
  for (const Layout& layout : layouts) {
    Program p = *program;
    for (Operand& in : p.inputs) {
      const bool full = in.shape.rank() == shape.rank() && !is_broadcast(in, shape);
      in.layout = full ? layout : readable(in, layout, shape.rank());
    }
    for (Operand& out : p.outputs) out.layout = layout;
    all.push_back({.kernel = "native.elementwise",
                   .inputs = p.inputs,
                   .outputs = p.outputs,
                   .workspace = workspace_of(p),
                   .efficiency = 0.5,
                   .in_place = in_place_pairs(p),
                   .make = [p] { return kernel_of(p); }});
  }
  return all;
}

}  // namespace tandem::native
