#include "tests/cuda/sampled_shapes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {
namespace {

// Zeros that take no memory until they are written to, with an end, or a beginning, at a page that nobody may touch.
class Room {
 public:
  explicit Room(std::int64_t bytes) : bytes_(bytes), whole_(2 * guard + ceil_div(std::max<std::int64_t>(bytes, 1), page) * page) {
    void* const made = mmap(nullptr, static_cast<std::size_t>(whole_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) fail("no ", whole_, " bytes of addresses");
    memory_ = static_cast<std::byte*>(made);
    if (mprotect(memory_ + guard, static_cast<std::size_t>(whole_ - 2 * guard), PROT_READ | PROT_WRITE) != 0) fail("no memory");
  }
  ~Room() { munmap(memory_, static_cast<std::size_t>(whole_)); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  // The next multiple of 16 before the last page: packs are so long.
  std::byte* at_the_end() { return memory_ + (whole_ - guard - bytes_) / 16 * 16; }
  std::byte* at_the_beginning() { return memory_ + guard; }

 private:
  static constexpr std::int64_t page = 4096, guard = 64 << 20;
  std::int64_t bytes_, whole_;
  std::byte* memory_ = nullptr;
};

DType in(DType wanted, DType type) { return wanted == DType::float64 ? type : wanted; }
Shape repeated(Shape shape, const Shape& batch, std::int64_t repeats) {
  if (shape.rank() > 1 && batch.rank() > 1 && shape[0] == batch[0]) shape[0] *= repeats;
  return shape;
}
Layout usual(const Shape& shape) { return shape.rank() > 2 ? Layout::channels_last(shape.rank()) : Layout::row_major(shape.rank()); }

void fill_integers(std::byte* memory, const Operand& operand, const ShapeInput& input) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> between(input.low, input.high);
  for (std::int64_t i = 0; i < operand.shape.elements(); ++i) {
    const auto value = static_cast<std::int64_t>(between(random));
    std::memcpy(memory + i * 8, &value, 8);
  }
}

// The kernel's description; absent where we have none of our own.
std::optional<KernelDescription> described(const ShapeJob& job, const std::vector<Operand>& inputs, DType type, std::int64_t repeats) {
  KernelRequest request{.op = job.op, .attributes = &job.attributes, .inputs = inputs};
  for (const TensorType& t : job.outputs)
    request.outputs.push_back({in(t.dtype, type), repeated(t.shape, job.inputs[0].type.shape, repeats), {}});
  const std::vector<KernelDescription> found = describe_emulated(request);
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

std::vector<Operand> operands_of(const ShapeJob& job, DType type, std::int64_t repeats, const KernelDescription* forward = nullptr) {
  std::vector<Operand> operands;
  for (const ShapeInput& i : job.inputs) {
    if (i.output >= 0) {
      operands.push_back(forward->outputs[static_cast<std::size_t>(i.output)]);
    } else if (i.input >= 0) {
      operands.push_back(forward->inputs[static_cast<std::size_t>(i.input)]);
    } else {
      const Shape shape = repeated(i.type.shape, job.inputs[0].type.shape, repeats);
      operands.push_back({in(i.type.dtype, type), shape, i.type.dtype == DType::undefined ? Layout() : usual(shape)});
    }
  }
  return operands;
}

void run(const KernelDescription& d, const ShapeJob& job) {
  std::vector<std::unique_ptr<Room>> rooms;
  const auto room = [&](std::int64_t bytes) { return rooms.emplace_back(std::make_unique<Room>(bytes)).get(); };
  for (const bool at_the_end : {true, false}) {
    rooms.clear();
    const auto place = [&](std::int64_t bytes) {
      Room* const made = room(bytes);
      return at_the_end ? made->at_the_end() : made->at_the_beginning();
    };
    std::vector<std::byte*> inputs, outputs;
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
      inputs.push_back(d.inputs[i].present() ? place(d.inputs[i].bytes()) : nullptr);
      if (d.inputs[i].dtype == DType::int64) fill_integers(inputs.back(), d.inputs[i], job.inputs[i]);
    }
    for (const Operand& o : d.outputs) outputs.push_back(o.present() ? place(o.bytes()) : nullptr);
    const std::unique_ptr<Kernel> kernel = d.make();
    kernel->bind(inputs, outputs, d.workspace > 0 ? place(d.workspace) : nullptr);
    kernel->run({});
  }
}

}  // namespace

std::vector<ShapeRow> with_own_kernels(const std::vector<ShapeRow>& rows) {
  std::vector<ShapeRow> own;
  for (const ShapeRow& row : rows)
    if (is_emulated(row.forward.op) && row.forward.op != "ConvolutionBackwardWeights") own.push_back(row);
  return own;
}

int run_in_guarded_memory(const ShapeRow& row, DType type) {
  const std::optional<KernelDescription> forward = described(row.forward, operands_of(row.forward, type, row.repeats), type, row.repeats);
  if (!forward) return 0;
  run(*forward, row.forward);
  if (!row.backward) return 1;
  ShapeJob backward = *row.backward;
  for (ShapeInput& i : backward.inputs) {
    if (i.input < 0) continue;
    const ShapeInput& same = row.forward.inputs[static_cast<std::size_t>(i.input)];
    i.low = same.low;
    i.high = same.high;
  }
  const std::optional<KernelDescription> back = described(backward, operands_of(backward, type, 1, &*forward), type, 1);
  EXPECT_TRUE(back) << backward.op << " has no kernel";
  if (back) run(*back, backward);
  return 2;
}

}  // namespace tandem::cuda
