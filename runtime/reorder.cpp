#include "runtime/reorder.h"

#include <algorithm>
#include <cstring>

namespace tandem {
namespace {

// One loop of the target's nest, with what it means in the source.
struct Loop {
  int axis;
  std::int64_t size, step;     // trips; how far the logical index moves in one
  std::int64_t target_stride;  // elements
};

// A source's offset is a sum over its axes, each a table by logical index: blocked layouts need no division then.
std::vector<std::vector<std::int64_t>> offset_tables(const Shape& shape, const Layout& layout) {
  std::vector<std::vector<std::int64_t>> tables(static_cast<std::size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) tables[static_cast<std::size_t>(axis)].assign(static_cast<std::size_t>(shape[axis]), 0);
  for (const PhysicalDim& d : physical_dims(shape, layout)) {
    auto& table = tables[static_cast<std::size_t>(d.axis)];
    for (std::size_t i = 0; i < table.size(); ++i) table[i] += static_cast<std::int64_t>(i) / d.step % d.size * d.stride;
  }
  return tables;
}

template <class T>
class Copy {
 public:
  Copy(const Operand& from, const T* source, const Operand& to, T* target)
      : shape_(from.shape), tables_(offset_tables(from.shape, from.layout)), source_(source), target_(target) {
    for (const PhysicalDim& d : physical_dims(to.shape, to.layout)) loops_.push_back({d.axis, d.size, d.step, d.stride});
    index_.assign(static_cast<std::size_t>(shape_.rank()), 0);
  }
  void run() { loop(0, target_); }

 private:
  // Trips whose logical index falls outside the shape are padding; the target holds zeros already.
  void loop(std::size_t depth, T* target) {
    const Loop& l = loops_[depth];
    const std::size_t axis = static_cast<std::size_t>(l.axis);
    std::int64_t& index = index_[axis];
    const std::int64_t start = index;
    const std::int64_t trips = std::min(l.size, (shape_.dims[axis] - start + l.step - 1) / l.step);
    if (depth + 1 == loops_.size()) {
      std::int64_t base = 0;
      for (std::size_t a = 0; a < index_.size(); ++a)
        if (a != axis) base += tables_[a][static_cast<std::size_t>(index_[a])];
      const std::int64_t* table = tables_[axis].data() + start;
      for (std::int64_t i = 0; i < trips; ++i) target[i * l.target_stride] = source_[base + table[i * l.step]];
      return;
    }
    for (std::int64_t i = 0; i < trips; ++i, index += l.step) loop(depth + 1, target + i * l.target_stride);
    index = start;
  }

  const Shape& shape_;
  std::vector<std::vector<std::int64_t>> tables_;
  std::vector<Loop> loops_;
  std::vector<std::int64_t> index_;  // logical, of the trip at hand
  const T* source_;
  T* target_;
};

template <class T>
void copy(const Operand& from, const std::byte* source, const Operand& to, std::byte* target) {
  Copy<T>(from, reinterpret_cast<const T*>(source), to, reinterpret_cast<T*>(target)).run();
}

}  // namespace

void reorder(const Operand& from, std::span<const std::byte> source, const Operand& to, std::span<std::byte> target) {
  if (from.dtype != to.dtype || from.shape != to.shape || std::ssize(source) != from.bytes() || std::ssize(target) != to.bytes())
    fail("reorder from ", from, " in ", source.size(), " bytes to ", to, " in ", target.size(), " bytes");
  if (source.empty()) return;
  if (same_memory(from.shape, from.layout, to.shape, to.layout)) {
    std::memcpy(target.data(), source.data(), target.size());
    return;
  }
  std::memset(target.data(), 0, target.size());
  switch (size_of(from.dtype)) {
    case 1: return copy<std::uint8_t>(from, source.data(), to, target.data());
    case 2: return copy<std::uint16_t>(from, source.data(), to, target.data());
    case 4: return copy<std::uint32_t>(from, source.data(), to, target.data());
    default: return copy<std::uint64_t>(from, source.data(), to, target.data());
  }
}

}  // namespace tandem
