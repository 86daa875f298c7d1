#include "planner/pipeline/pieces.h"

#include <algorithm>
#include <map>
#include <string>

#include "graph/operator.h"

namespace tandem {
namespace {

constexpr double operations_a_byte = 10;  // of processors: float32 operations in the time in which memory gives a byte
constexpr std::size_t most_pieces = 2000;

double bytes_of(const Value& v) { return static_cast<double>(v.type.shape.elements()) * static_cast<double>(size_of(v.type.dtype)); }

class Pieces {
 public:
  Pieces(const Graph& model, const HeldShares& held) : model_(model), held_(held) {}

  ModelPieces run() {
    find_places();
    find_cuts();
    fill();
    thin();
    return std::move(result_);
  }

 private:
  // Each node stands at its own index, one that no sample goes into at its first reader's.
  void find_places() {
    IdVector<ValueId, bool> of_samples(model_.values.size());
    for (std::size_t v = 0; v < model_.values.size(); ++v)
      of_samples[ValueId{static_cast<int>(v)}] = model_.values[v].kind == ValueKind::input;
    std::vector<bool> depends;
    for (const Node& node : model_.nodes) {
      depends.push_back(std::ranges::any_of(node.inputs, [&](ValueId in) { return in.present() && of_samples[in]; }));
      for (const ValueId out : node.outputs)
        if (out.present()) of_samples[out] = depends.back();
    }
    const auto readers = model_.consumers();
    place_.resize(model_.nodes.size());
    for (std::size_t n = model_.nodes.size(); n-- > 0;) {
      int first = static_cast<int>(model_.nodes.size());
      for (const ValueId out : model_.nodes[n].outputs)
        if (out.present())
          for (const NodeId reader : readers[out]) first = std::min(first, place_[at(reader.index)]);
      place_[n] = depends[n] || first == std::ssize(model_.nodes) ? static_cast<int>(n) : first;
    }
  }

  // By place its piece: a new one where no ONNX node has nodes on both sides.
  void find_cuts() {
    const std::size_t count = model_.nodes.size();
    std::map<std::string, int, std::less<>> last;
    for (std::size_t n = 0; n < count; ++n)
      for (const std::string& origin : model_.nodes[n].origin) last[origin] = std::max(last[origin], place_[n]);
    std::vector<int> reach(count, -1);  // by place; -1: no node stands there
    for (std::size_t n = 0; n < count; ++n) {
      int& end = reach[at(place_[n])];
      end = std::max(end, place_[n]);
      for (const std::string& origin : model_.nodes[n].origin) end = std::max(end, last[origin]);
    }
    std::vector<int> piece(count);
    int open_until = -1, pieces = 0;
    for (std::size_t place = 0; place < count; ++place) {
      if (reach[place] >= 0 && static_cast<int>(place) > open_until) ++pieces;
      open_until = std::max(open_until, reach[place]);
      piece[place] = pieces - 1;
    }
    result_.pieces.resize(at(pieces));
    for (const int place : place_) result_.of_node.push_back(piece[at(place)]);
  }

  void fill() {
    std::vector<double> gradients(model_.values.size());  // of values that have one: 1
    std::vector<int> first(model_.values.size(), -1), last(model_.values.size(), -1);  // pieces that make or read it
    const auto touch = [&](ValueId v, int piece) {
      int& begin = first[at(v.index)];
      begin = begin < 0 ? piece : std::min(begin, piece);
      last[at(v.index)] = std::max(last[at(v.index)], piece);
    };
    for (std::size_t v = 0; v < model_.values.size(); ++v) {
      gradients[v] = model_.values[v].trainable ? 1 : 0;
      if (model_.values[v].kind == ValueKind::input) touch({static_cast<int>(v)}, 0);
    }
    for (std::size_t n = 0; n < model_.nodes.size(); ++n) {
      const Node& node = model_.nodes[n];
      Piece& piece = result_.pieces[at(result_.of_node[n])];
      double bytes = 0, times = 1;
      bool kept = false;  // for the backward pass
      for (const ValueId in : node.inputs) {
        if (!in.present()) continue;
        touch(in, result_.of_node[n]);
        bytes += bytes_of(model_[in]);
        kept = kept || gradients[at(in.index)] > 0;
        if (model_[in].type.shape.rank() > 1) times += gradients[at(in.index)];  // a bias' is little beside them
      }
      for (const ValueId out : node.outputs) {
        if (!out.present()) continue;
        touch(out, result_.of_node[n]);
        bytes += bytes_of(model_[out]);
        gradients[at(out.index)] = kept && is_float(model_[out].type.dtype) ? 1 : 0;
        if (kept) piece.activations += held_.activations * bytes_of(model_[out]);
      }
      piece.time += times * std::max(flops_of(model_, node), operations_a_byte * bytes);
    }
    for (std::size_t v = 0; v < model_.values.size(); ++v) {
      const Value& value = model_.values[v];
      const double bytes = bytes_of(value);
      if (value.kind == ValueKind::parameter && first[v] >= 0)
        result_.pieces[at(first[v])].parameters += bytes * (value.trainable ? held_.parameters : 1);
      if ((value.kind == ValueKind::activation || value.kind == ValueKind::input) && first[v] < last[v]) {
        const double sends = operations_a_byte * bytes * (1 + gradients[v]);
        result_.pieces[at(first[v])].sends += sends;  // first by where they begin and end
        result_.pieces[at(last[v])].sends -= sends;
      }
    }
    for (std::size_t p = 1; p < result_.pieces.size(); ++p) result_.pieces[p].sends += result_.pieces[p - 1].sends;
    for (const GraphOutput& out : model_.outputs)  // a loss reads it, and its gradient is made
      if (!result_.pieces.empty()) result_.pieces.back().time += 3 * operations_a_byte * bytes_of(model_[out]);
  }

  // Of neighbouring cuts that one remains at which the least is sent.
  void thin() {
    const std::size_t count = result_.pieces.size();
    if (count <= most_pieces) return;
    const std::size_t window = (count + most_pieces - 1) / most_pieces;
    std::vector<int> now(count);
    std::vector<Piece> joined;
    const auto join = [&](std::size_t begin, std::size_t end) {
      if (begin == end) return;
      Piece whole;
      for (std::size_t p = begin; p < end; ++p) {
        const Piece& piece = result_.pieces[p];
        now[p] = static_cast<int>(joined.size());
        whole = {whole.time + piece.time, piece.sends, whole.activations + piece.activations, whole.parameters + piece.parameters};
      }
      joined.push_back(whole);
    };
    std::size_t begin = 0;
    for (std::size_t w = 0; w < count; w += window) {
      const auto from = result_.pieces.begin() + static_cast<std::ptrdiff_t>(w),
                 to = result_.pieces.begin() + static_cast<std::ptrdiff_t>(std::min(count, w + window));
      const auto least = std::min_element(from, to, [](const Piece& a, const Piece& b) { return a.sends < b.sends; });
      const auto end = static_cast<std::size_t>(least - result_.pieces.begin()) + 1;
      join(begin, end);
      begin = end;
    }
    join(begin, count);
    result_.pieces = std::move(joined);
    for (int& piece : result_.of_node) piece = now[at(piece)];
  }

  const Graph& model_;
  const HeldShares held_;
  std::vector<int> place_;  // by node
  ModelPieces result_;
};

}  // namespace

ModelPieces pieces_of(const Graph& model, const HeldShares& held) { return Pieces(model, held).run(); }

}  // namespace tandem
