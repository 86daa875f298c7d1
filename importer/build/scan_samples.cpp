// Scan of opset 8: axis 0 of all operands holds samples and axis 1 of those that are scanned the iterations; the body runs for each sample
// by itself, for as many iterations as its sequence is long. What is scanned backwards begins at the sequence's own end, and results of the
// iterations that a sample does not take are zeros.
#include <algorithm>

#include "importer/build/builder.h"
#include "importer/build/loop_state.h"
#include "importer/message/limits.h"

namespace tandem {

struct Builder::SampleScan {
  std::vector<Symbol> operands;        // those that are carried from iteration to iteration, then those that are scanned
  std::size_t carried = 0;
  Ints reversed;                       // of each that is scanned
  std::int64_t samples = 0, most = 0;  // iterations at most
  Ints lengths;                        // iterations of each sample
};

void Builder::scan_samples(const FlatNode& node) {
  const FlatBody& body = body_of(node, "body");
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Symbol in = node.inputs[i];
    if (in.present() && !built(in)) return;
    if (in.present() ? !value(in).present() : i > 0) fail("one of its inputs is missing, or a list of tensors");
  }
  const SampleScan scan = sample_scan(node, body);
  std::vector<List> by_sample(static_cast<std::size_t>(scan.samples));  // the operands of each
  for (std::size_t i = 0; i < scan.operands.size(); ++i) {
    const List parts = split(node, scan.operands[i], 0, Ints(by_sample.size(), 1), false, concat("samples", i));
    for (std::size_t s = 0; s < by_sample.size(); ++s) by_sample[s].push_back(parts[s]);
  }
  std::vector<List> results(body.outputs.size());
  for (std::size_t s = 0; s < by_sample.size(); ++s)
    if (!scan_sample(node, body, scan, s, by_sample[s], results)) return;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].present()) continue;
    const Symbol whole = stacked(node, results[i], 0, concat("result", i));
    hand(whole, node.outputs[i]);
    if (value(whole).present()) rename(value(whole), node.outputs[i]);
  }
}

Builder::SampleScan Builder::sample_scan(const FlatNode& node, const FlatBody& body) {
  SampleScan scan;
  const std::vector<Symbol>& operands = scan.operands;
  scan.operands.assign(node.inputs.begin() + std::min<std::ptrdiff_t>(1, std::ssize(node.inputs)), node.inputs.end());
  const std::int64_t scanned = node.attributes.integer("num_scan_inputs");
  if (scanned < 1 || scanned > std::ssize(operands)) fail("num_scan_inputs is ", scanned, ", expected 1 to ", operands.size());
  const std::size_t carried = scan.carried = operands.size() - static_cast<std::size_t>(scanned);
  if (body.inputs.size() != operands.size()) fail("its body takes ", body.inputs.size(), " inputs, expected ", operands.size());
  if (body.outputs.size() < std::max(carried, node.outputs.size()))
    fail("its body gives ", body.outputs.size(), " outputs, expected ", std::max(carried, node.outputs.size()));
  scan.reversed = node.attributes.ints("directions", Ints(static_cast<std::size_t>(scanned), 0));
  if (std::ssize(scan.reversed) != scanned) fail("directions has ", scan.reversed.size(), " entries, expected ", scanned);

  const auto shape_of = [&](std::size_t i) { return graph()[value(operands[i])].type.shape; };
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (shape_of(i).rank() < (i < carried ? 1 : 2))
      fail("its operand ", i + 1, " is ", shape_of(i), ", expected samples in axis 0", i < carried ? "" : " and iterations in axis 1");
  const std::int64_t samples = scan.samples = shape_of(carried)[0], most = scan.most = shape_of(carried)[1];
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (shape_of(i)[0] != samples || (i >= carried && shape_of(i)[1] != most))
      fail("its operand ", i + 1, " is ", shape_of(i), ", expected ", samples, " samples",
           i < carried ? "" : concat(" of ", most, " iterations"));
  if (samples < 1 || most < 1) fail("it runs no iteration, so the shapes of its outputs are not known");
  if (samples > limits::unrolled_nodes || most > limits::unrolled_nodes)
    fail("it takes ", most, " iterations for each of ", samples, " samples, expected at most ", limits::unrolled_nodes, " in all");
  scan.lengths = sequence_lengths(node, samples, most);
  return scan;
}

Ints Builder::sequence_lengths(const FlatNode& node, std::int64_t samples, std::int64_t most) {
  if (!node.inputs[0].present()) return Ints(static_cast<std::size_t>(samples), most);
  const Tensor* given = known(node.inputs[0]);
  if (!given) fail("its sequences' lengths are computed from data; they must be known when the plan is made");
  Ints lengths = given->to_int64s();
  if (std::ssize(lengths) != samples || std::ranges::any_of(lengths, [&](std::int64_t n) { return n < 1 || n > most; }))
    fail("sequence_lens is ", given->type(), ", expected for each of ", samples, " samples a length of 1 to ", most);
  return lengths;
}

bool Builder::scan_sample(const FlatNode& node, const FlatBody& body, const SampleScan& scan, std::size_t s, const List& operands,
                          std::vector<List>& results) {
  const auto length = static_cast<std::size_t>(scan.lengths[s]);
  const std::size_t carried = scan.carried;
  LoopState state;
  state.carried.assign(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(carried));
  state.gathered.resize(body.outputs.size() - carried);
  std::vector<List> parts;
  for (std::size_t i = carried; i < operands.size(); ++i) {
    parts.push_back(split(node, operands[i], 0, Ints(static_cast<std::size_t>(scan.most), 1), false, concat("scanned", i, '#', s)));
    if (scan.reversed[i - carried]) std::reverse(parts.back().begin(), parts.back().begin() + static_cast<std::ptrdiff_t>(length));
  }
  for (std::size_t t = 0; t < length; ++t) {
    count_iteration(body);
    const FlatBody now = instantiate(body, concat('#', s, '.', t));
    for (std::size_t i = 0; i < carried; ++i) hand(state.carried[i], now.inputs[i]);
    for (std::size_t i = 0; i < parts.size(); ++i) hand(parts[i][t], now.inputs[carried + i]);
    if (!iteration(node, now, state)) return false;
  }
  for (std::size_t i = 0; i < carried; ++i) results[i].push_back(state.carried[i]);
  for (std::size_t i = 0; i < state.gathered.size(); ++i) {
    Symbol whole = stacked(node, state.gathered[i], 0, concat("gathered", i, '#', s));
    if (!value(whole).present()) return false;
    TensorType rest = graph()[value(whole)].type;
    rest.shape[0] = scan.most - scan.lengths[s];
    if (rest.shape[0] > 0)
      whole = emit(node, "Concat", {whole, constant(node, Tensor(rest), concat("rest", i, '#', s))}, {{"axis", std::int64_t{0}}},
                   concat("padded", i, '#', s));
    results[carried + i].push_back(whole);
  }
  return true;
}

}  // namespace tandem
