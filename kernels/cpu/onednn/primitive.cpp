// Fills descriptions from oneDNN's primitive descriptors, and makes kernels of them that hold all that a run passes.
#include "kernels/cpu/onednn/primitive.h"

#include "base/size.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "graph/layout_tag.h"
#include "kernels/cpu/native/elementwise_loops.h"
#include "kernels/cpu/native/native.h"

namespace tandem::onednn {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    library_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops ops;
    compat::append_relu(ops);
    attr.set_post_ops(ops);
  }
  return attr;
}

bool has_bf16() {
  constexpr auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (library_isa() & bf16) == bf16;
}

bool float_operands(const KernelRequest& request) {
  const auto known = [](DType t) { return t == DType::float32 || (t == DType::bfloat16 && has_bf16()); };
  const auto real = [&](const Operand& o) { return !o.present() || (known(o.dtype) && o.shape.elements() > 0); };
  const auto fits = [&](const Operand& o) { return o.layout.opaque() || real(o); };
  const auto written = [&](const Operand& o) { return fits(o) || o.dtype == DType::uint8; };  // an opaque one, not decided yet
  return std::all_of(request.inputs.begin(), request.inputs.end(), fits) && real(request.outputs[0]) &&
         std::all_of(request.outputs.begin() + 1, request.outputs.end(), written);
}

Layout preferred_layout(int rank, const KernelOptions& options) {
  if (rank < 3) return Layout::row_major(rank);
  if (options.preference == LayoutPreference::channels_last) return Layout::channels_last(rank);
  constexpr auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  LayoutTag tag = tag_of(Layout::row_major(rank));
  tag.blocks = {{1, (library_isa() & avx512) == avx512 ? 16 : 8}};
  return tag.layout();
}

bool is_reference(const dnnl::primitive_desc_base& pd) {
  return std::string_view(pd.impl_info_str()).find("ref") != std::string_view::npos;
}

bool countable(const KernelRequest& request) {
  for (const auto* operands : {&request.inputs, &request.outputs})
    for (const Operand& o : *operands) {
      std::int64_t behind = 1;
      for (int axis = 0; axis < o.shape.rank(); ++axis) {
        if (o.shape[axis] > longest_axis) return false;
        if (axis > 0 && (behind *= std::max<std::int64_t>(1, o.shape[axis])) > longest_axis) return false;
      }
    }
  return true;
}

bool has_16_bit(const KernelRequest& request) {
  const auto narrow = [](const Operand& o) { return is_16_bit(o.dtype); };
  return std::any_of(request.inputs.begin(), request.inputs.end(), narrow) ||
         std::any_of(request.outputs.begin(), request.outputs.end(), narrow);
}

bool is_replay(const KernelRequest& request) {
  const auto known = [](const Operand& o) { return !o.present() || !o.layout.any(); };
  return !request.kernel.empty() && std::all_of(request.inputs.begin(), request.inputs.end(), known) &&
         std::all_of(request.outputs.begin(), request.outputs.end(), known);
}

double speed_of(const KernelRequest& request) { return has_16_bit(request) ? 2 : 1; }

bool is_fallback(const dnnl::primitive_desc_base& pd) {
  const std::string_view name = pd.impl_info_str();
  return is_reference(pd) || name.find("gemm:") == 0 || name.find("nspc_gemm") == 0 || name.find("ncsp_gemm") == 0;
}

double efficiency_of(const dnnl::primitive_desc_base& pd) {
  if (is_reference(pd)) return reference_efficiency;
  return is_fallback(pd) ? 0.4 : 0.8;
}

namespace {
constexpr std::string_view opaque_prefix = "opaque:onednn.";
}

Layout opaque_layout(const Layout& data) { return Layout::opaque("onednn." + data.tag()); }

std::optional<Layout> data_layout(const Layout& opaque) {
  if (!opaque.tag().starts_with(opaque_prefix)) return std::nullopt;
  return Layout(opaque.tag().substr(opaque_prefix.size()));
}

namespace {

// A primitive and its scratch memory.
struct Compiled {
  dnnl::primitive primitive;
  Desc scratchpad;

  Compiled() = default;
  // The library's cache may give a primitive that was made of a descriptor which it takes for the same. Run on less scratch memory
  // than that one needs, it would write past its end.
  Compiled(const dnnl::primitive_desc_base& pd, const std::string& kernel) : primitive(pd.get()), scratchpad(pd.scratchpad_desc()) {
    const_dnnl_primitive_desc_t made = nullptr;
    if (dnnl_primitive_get_primitive_desc(primitive.get(), &made) != dnnl_success)
      fail(ExitCode::device, "kernel ", kernel, ": oneDNN does not tell what it has made");
    const std::size_t needs = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0)),
                      has = scratchpad.get_size();
    if (needs > has)
      fail(ExitCode::device, "kernel ", kernel, ": what oneDNN has made needs ", needs, " bytes of scratch memory, it was described with ",
           has);
  }
  void run(const dnnl::stream& stream, const std::vector<dnnl_exec_arg_t>& arguments) const {
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
    if (status != dnnl_success) fail(ExitCode::device, "oneDNN: running a primitive gave status ", static_cast<int>(status));
  }
};

// Whether a thread of the team has met an invalid operation since it was last asked: a NaN in a maximum or a comparison is one, too, and
// the processor notes it at no cost. A note of what came before costs time alone.
bool met_invalid(int team) {
#if defined(__x86_64__)
  std::atomic<bool> met = false;
  native::parallel(team, [&](int) {
    const unsigned state = _mm_getcsr();
    if ((state & _MM_EXCEPT_INVALID) == 0) return;
    met.store(true, std::memory_order_relaxed);
    _mm_setcsr(state & ~static_cast<unsigned>(_MM_EXCEPT_INVALID));
  });
  return met;
#else
  static_cast<void>(team);
  return true;
#endif
}

}  // namespace

// Holds the primitive, its memory objects and the argument list that every run passes.
class PrimitiveKernel final : public Kernel {
 public:
  explicit PrimitiveKernel(const Candidate& candidate)
      : implementation_(candidate.pd_.impl_info_str()), arguments_(candidate.arguments_), stream_(cpu_engine()) {
    const ThreadScope scope(candidate.threads_);
    primitive_ = Compiled(candidate.pd_, candidate.description_.kernel);
    if (candidate.unrectified_) plain_ = Compiled(candidate.unrectified_, candidate.description_.kernel);
    repair_ = candidate.repair_;
    team_ = team_size(candidate.threads_);
    const Operand& y = candidate.description_.outputs[0];
    if (repair_ && has_padding(y.shape, y.layout)) repaired_padding_.emplace(y);
    if constexpr (compat::padding_may_be_left)
      for (std::size_t i = 0; i < candidate.description_.outputs.size(); ++i) {
        const Operand& o = candidate.description_.outputs[i];
        if (o.present() && !o.layout.opaque() && has_padding(o.shape, o.layout)) left_.push_back({native::PaddingZero(o), i});
      }
  }

  // Creating a memory object clears a blocked layout's padding: once here, never in a run.
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    memories_.reserve(arguments_.size() + 2);
    for (const auto& a : arguments_) {
      const auto operands = a.is_output ? outputs : inputs;
      std::byte* const operand = operands[static_cast<std::size_t>(a.index)];
      if (a.second < 0) {
        attach(a.argument, a.desc, operand);
        continue;
      }
      std::byte* const joined = workspace + a.offset;
      const std::size_t half = a.desc.get_size() / 2;
      attach(a.argument, a.desc, joined);
      std::vector<Copy>& copies = a.is_output ? after_ : before_;
      for (const auto& [part, own] : {std::pair{joined, operand}, std::pair{joined + half, operands[static_cast<std::size_t>(a.second)]}})
        copies.push_back(a.is_output ? Copy{own, part, half} : Copy{part, own, half});
    }
    execute_plain_ = execute_;
    if (primitive_.scratchpad.get_size() > 0) attach(DNNL_ARG_SCRATCHPAD, primitive_.scratchpad, workspace);
    if (plain_ && plain_->scratchpad.get_size() > 0) attach(DNNL_ARG_SCRATCHPAD, plain_->scratchpad, workspace, execute_plain_);
    x_ = inputs[0];
    y_ = outputs[0];
    for (Padding& p : left_) p.memory = outputs[p.output];
  }

  void run(StreamHandle) override {
    for (const Copy& c : before_) std::memcpy(c.to, c.from, c.bytes);
    primitive_.run(stream_, execute_);
    if (repair_ && met_invalid(team_)) {
      if (plain_) plain_->run(stream_, execute_plain_);
      repair_(x_, y_);
      if (repaired_padding_) repaired_padding_->run(y_);  // a filter's zeros times NaN
      met_invalid(team_);
    }
    for (const Copy& c : after_) std::memcpy(c.to, c.from, c.bytes);
    for (const Padding& p : left_) p.zero.run(p.memory);
  }

  const std::string& implementation() const { return implementation_; }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };

  struct Padding {
    native::PaddingZero zero;
    std::size_t output;
    std::byte* memory = nullptr;
  };

  void attach(int argument, const Desc& desc, std::byte* memory) { attach(argument, desc, memory, execute_); }
  void attach(int argument, const Desc& desc, std::byte* memory, std::vector<dnnl_exec_arg_t>& to) {
    memories_.emplace_back(desc, cpu_engine(), memory);
    to.push_back({argument, memories_.back().get()});
  }

  std::string implementation_;
  std::vector<Candidate::Argument> arguments_;
  dnnl::stream stream_;
  Compiled primitive_;
  std::optional<Compiled> plain_;
  Repair repair_;
  std::optional<native::PaddingZero> repaired_padding_;
  int team_ = 1;
  const std::byte* x_ = nullptr;
  std::byte* y_ = nullptr;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> execute_, execute_plain_;
  std::vector<Copy> before_, after_;  // of joined operands
  std::vector<Padding> left_;         // that the library may leave as it was
};

std::string implementation_of(const Kernel& kernel) {
  const auto* primitive = dynamic_cast<const PrimitiveKernel*>(&kernel);
  return primitive ? primitive->implementation() : std::string();
}

Candidate::Candidate(const KernelRequest& request, std::string kernel, dnnl::primitive_desc_base pd)
    : pd_(std::move(pd)), threads_(request.options.threads), valid_(pd_ && !(has_16_bit(request) && is_reference(pd_))) {
  description_.kernel = std::move(kernel);
  description_.inputs = request.inputs;
  description_.outputs = request.outputs;
  if (!valid_) return;
  description_.workspace = static_cast<std::int64_t>(pd_.scratchpad_desc().get_size());
  description_.efficiency = efficiency_of(pd_) * speed_of(request);
}

namespace {

// One memory has several names, where axes of one may stand anywhere: what was asked for keeps its own.
void lay_out(Operand& operand, const Layout& layout) {
  const Layout& asked = operand.layout;
  if (asked.any() || asked.opaque() || layout.opaque() || !same_memory(operand.shape, asked, operand.shape, layout))
    operand.layout = layout;
}

}  // namespace

void Candidate::unrectified(dnnl::primitive_desc_base pd) {
  unrectified_ = std::move(pd);
  if (!(valid_ = valid_ && unrectified_)) return;
  description_.workspace = std::max(description_.workspace, static_cast<std::int64_t>(unrectified_.scratchpad_desc().get_size()));
  const Desc y = unrectified_.dst_desc(0);
  const DType dtype = description_.outputs[0].dtype;
  const auto size = static_cast<std::int64_t>(size_of(dtype)), elements = static_cast<std::int64_t>(y.get_size()) / size;
  repair_ = [=, team = team_size(threads_), relu = native::find_micro("Relu", dtype, dtype).value().run](const std::byte*, std::byte* to) {
    native::parallel(team, [&](int part) {
      const native::Range r = native::part_of(elements, part, team);
      relu(to + r.begin * size, to + r.begin * size, nullptr, nullptr, r.end - r.begin, nullptr);
    });
  };
}

void Candidate::input(int index, int argument, const Desc& desc, std::optional<Layout> layout) {
  if (!(valid_ = valid_ && layout)) return;
  lay_out(description_.inputs[static_cast<std::size_t>(index)], *layout);
  arguments_.push_back({argument, desc, false, index});
}

void Candidate::output(int index, int argument, const Desc& desc, std::optional<Layout> layout) {
  if (!(valid_ = valid_ && layout)) return;
  lay_out(description_.outputs[static_cast<std::size_t>(index)], *layout);
  arguments_.push_back({argument, desc, true, index});
}

void Candidate::join(int first, int second, int argument, bool is_output) {
  if (!valid_) return;
  constexpr std::int64_t line = 64;
  auto& operands = is_output ? description_.outputs : description_.inputs;
  for (const int index : {first, second}) operands[static_cast<std::size_t>(index)].layout = Layout::row_major(1);
  const Operand& operand = operands[static_cast<std::size_t>(first)];
  const auto desc = to_desc(Shape{2, operand.shape[0]}, Layout::row_major(2));
  const std::int64_t offset = (description_.workspace + line - 1) / line * line;
  description_.workspace = offset + static_cast<std::int64_t>(desc->get_size());
  arguments_.push_back({argument, *desc, is_output, first, second, offset});
}

void Candidate::opaque_output(int index, int argument, const Desc& desc, const Layout& data) {
  if (!valid_) return;
  const auto bytes = static_cast<std::int64_t>(desc.get_size());
  description_.outputs[static_cast<std::size_t>(index)] = {DType::uint8, Shape{bytes}, opaque_layout(data)};
  if (bytes > 0) arguments_.push_back({argument, desc, true, index});
}

void Candidate::add_to(std::vector<KernelDescription>& descriptions) && {
  if (!valid_) return;
  for (Operand& o : description_.inputs)  // what the primitive does not read
    if (o.present() && o.layout.any()) o.layout = Layout::row_major(o.shape.rank());
  const auto same = [&](const KernelDescription& d) {
    return d.kernel == description_.kernel && d.inputs == description_.inputs && d.outputs == description_.outputs;
  };
  if (std::any_of(descriptions.begin(), descriptions.end(), same)) return;
  KernelDescription done = description_;
  done.make = [candidate = std::move(*this)] { return std::make_unique<PrimitiveKernel>(candidate); };
  descriptions.push_back(std::move(done));
}

}  // namespace tandem::onednn
