// Convolutions in all directions. For each algorithm and each promising choice of layouts one description, so that the
// planner can weigh them (or time them) with the reorders they cause.
#include <algorithm>
#include <array>

#include "kernels/cpu/describe.h"
#include "kernels/cpu/native/window.h"
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

// The layouts of x, w and y (or of their gradients) of one attempt.
struct Choice {
  Layout x, w, y;
  bool operator==(const Choice&) const = default;
};

enum class Direction { forward, data, weights };

struct Problem {
  Direction direction;
  Operand x, w, b, y;  // b: bias or its gradient, may be absent
  Filter filter;
  Window window;
  Dims dilations;      // oneDNN counts from 0
};

Problem problem_of(const KernelRequest& request, Direction direction, const Operand& x, const Operand& w, const Operand& b,
                   const Operand& y, bool transposed) {
  Problem p{direction,
            x,
            w,
            b,
            y,
            {w.shape, request.attributes->integer("group", 1), transposed, w.dtype},
            window_of(*request.attributes, w.shape),
            {}};
  for (const auto d : p.window.dilations) p.dilations.push_back(d - 1);
  return p;
}

bool supported(const KernelRequest& request, const Shape& x) {
  return float_operands(request) && x.rank() >= 3 && x.rank() <= 5;
}

std::vector<Choice> choices(const Problem& p, const KernelOptions& options, bool replay) {
  const Choice asked{p.x.layout, p.w.layout, p.y.layout};
  if (replay) {
    // Maps of one channel lie the same way by several names: oneDNN 3 has kernels for one of them alone, and chooses it.
    const auto of = [](const Operand& o, const Layout& layout) { return o.shape[1] == 1 ? Layout() : layout; };
    const Choice chosen{of(p.x, asked.x), asked.w, of(p.y, asked.y)};
    return chosen == asked ? std::vector{asked} : std::vector{asked, chosen};
  }
  std::vector<Choice> list;
  const auto add = [&](const Choice& c) {
    if (std::find(list.begin(), list.end(), c) == list.end()) list.push_back(c);
  };
  if (options.preference == LayoutPreference::channels_last) {
    const Layout last = Layout::channels_last(p.x.shape.rank());
    add({last, asked.w, last});
    add({last, {}, last});
    add({asked.x, {}, last});
  }
  add(asked);
  add({asked.x, {}, asked.y});
  add({{}, asked.w, {}});
  add({{}, {}, {}});
  return list;
}

struct Descs {
  Desc x, w, b, y;
};

std::optional<Descs> descs_of(const Problem& p, const Choice& c) {
  const auto x = to_desc(p.x, c.x), w = to_desc(p.filter, c.w), y = to_desc(p.y, c.y);
  const auto b = p.b.present() ? to_desc(p.b, Layout::row_major(1)) : Desc();
  if (!x || !w || !y || !b) return std::nullopt;
  return Descs{*x, *w, *b, *y};
}

// Share of whole blocks when `size` is taken `block` at a time.
double filled(std::int64_t size, std::int64_t block) {
  return static_cast<double>(size) / static_cast<double>((size + block - 1) / block * block);
}

// A guess of the share of the peak, until it is timed; from measurements on AVX-512. Winograd counts the operations it
// saves; its tiles are 4×4 outputs, and the transform of the filter is paid off over all tiles, those of the maps over the channels.
// Channels last, the channels that are summed over, or read for filters' gradients, need not fill blocks.
double efficiency(const Problem& p, const dnnl::primitive_desc_base& pd, dnnl::algorithm algorithm, bool channels_last) {
  if (is_fallback(pd)) return efficiency_of(pd);
  const std::int64_t group = p.filter.group, in = p.x.shape[1] / group, out = p.y.shape[1] / group;
  if (in == 1 && out == 1) return 0.2;
  const bool sums_out = p.direction == Direction::data && channels_last, loose_in = p.direction != Direction::data && channels_last;
  const double blocks = (in <= 4 ? 0.6 : loose_in ? 0.95 : filled(in, 16)) * (sums_out ? 0.95 : filled(out, 16));
  if (algorithm != dnnl::algorithm::convolution_winograd) return 0.8 * blocks;
  const std::int64_t h = p.y.shape[2], w = p.y.shape[3];
  const double tiles = static_cast<double>(p.y.shape[0] * ((h + 3) / 4) * ((w + 3) / 4));
  const auto paid_off = [](std::int64_t count, double cost) { return static_cast<double>(count) / (static_cast<double>(count) + cost); };
  const double maps = std::min(1.0, paid_off(in, 4) * paid_off(out, 4) / (paid_off(64, 4) * paid_off(64, 4)));
  return 1.6 * blocks * filled(h, 4) * filled(w, 4) * tiles / (tiles + 24) * maps;
}

bool winograd_fits(const Problem& p, const KernelOptions& options) {
  const auto all = [](const Ints& v, std::int64_t wanted) { return std::all_of(v.begin(), v.end(), [&](auto i) { return i == wanted; }); };
  return options.winograd && p.x.shape.rank() == 4 && p.filter.group == 1 && !p.filter.transposed && p.x.shape[1] >= 16 &&
         all(p.window.kernel, 3) && all(p.window.strides, 1) && all(p.window.dilations, 1);
}

// make(algorithm, descriptors, attributes) → primitive descriptor; fill(candidate, descriptor) names the arguments.
template <class Make, class Fill>
std::vector<KernelDescription> attempts(const KernelRequest& request, const Problem& p, std::string_view family, Make&& make, Fill&& fill) {
  const ThreadScope threads(request.options.threads);
  const bool relu = has_relu(*request.attributes);
  std::vector<KernelDescription> found;
  const auto attempt = [&](dnnl::algorithm algorithm, const std::string& kernel, const Choice& choice) {
    const std::optional<Descs> descs = descs_of(p, choice);
    if (!descs) return;
    const dnnl::primitive_desc_base pd = make(algorithm, *descs, attributes(relu));
    if (!pd) return;
    Candidate candidate(request, kernel, pd);
    if (relu) candidate.unrectified(make(algorithm, Descs{pd.src_desc(0), pd.weights_desc(0), descs->b, pd.dst_desc(0)}, attributes()));
    fill(candidate, pd);
    const Layout& data = candidate.description().inputs[0].layout;
    candidate.description().efficiency = efficiency(p, pd, algorithm, data == Layout::channels_last(p.x.shape.rank())) * speed_of(request);
    std::move(candidate).add_to(found);
  };
  const std::string direct = concat(family, ".direct"), winograd = concat(family, ".winograd");
  const auto wanted = [&](const std::string& kernel) { return request.kernel.empty() || request.kernel == kernel; };
  for (const Choice& choice : choices(p, request.options, is_replay(request))) {
    if (wanted(direct)) attempt(dnnl::algorithm::convolution_direct, direct, choice);
    if (wanted(winograd) && winograd_fits(p, request.options)) attempt(dnnl::algorithm::convolution_winograd, winograd, choice);
  }
  // Blocks that straddle groups have no Layout: take the filter as it came.
  if (found.empty() && p.filter.group > 1 && wanted(direct))
    attempt(dnnl::algorithm::convolution_direct, direct, {{}, Layout::row_major(p.w.shape.rank()), {}});
  std::stable_sort(found.begin(), found.end(), [](const auto& l, const auto& r) { return l.efficiency > r.efficiency; });
  // Reference loops are for what nothing better exists for.
  const auto loop = std::find_if(found.begin(), found.end(), [](const auto& d) { return d.efficiency <= reference_efficiency; });
  if (loop != found.begin()) found.erase(loop, found.end());
  return found;
}

auto forward_hint(const Problem& p, dnnl::algorithm algorithm, const Descs& d) {
  return compat::describe<dnnl::convolution_forward>(cpu_engine(), attributes(), dnnl::prop_kind::forward_training, algorithm, d.x, d.w,
                                                     Desc(), d.y, p.window.strides, p.dilations, p.window.begin, p.window.end);
}

}  // namespace

std::vector<KernelDescription> describe_convolution(const KernelRequest& request) {
  const auto& in = request.inputs;
  // no implementation normalizes what it reads or sums what it writes
  if (!supported(request, in[0].shape) || in.size() > 3 || request.outputs.size() > 1) return {};
  const Problem p = problem_of(request, Direction::forward, in[0], in[1], operand_at(in, 2), request.outputs[0], false);
  return attempts(
      request, p, "onednn.convolution",
      [&](dnnl::algorithm algorithm, const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        // Always the training kind: for inference Winograd would want weights in a form only oneDNN knows.
        return compat::describe<dnnl::convolution_forward>(cpu_engine(), attr, dnnl::prop_kind::forward_training, algorithm, d.x,
                                                           d.w, d.b, d.y, p.window.strides, p.dilations, p.window.begin, p.window.end);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_SRC, pd.src_desc(0));
        c.input(1, DNNL_ARG_WEIGHTS, pd.weights_desc(0), to_layout(p.filter, pd.weights_desc(0)));
        if (p.b.present()) c.input(2, DNNL_ARG_BIAS, pd.weights_desc(1));
        c.output(0, DNNL_ARG_DST, pd.dst_desc(0));
      });
}

std::vector<KernelDescription> describe_convolution_backward_data(const KernelRequest& request) {
  const auto& in = request.inputs;
  if (!supported(request, in[0].shape) || in.size() > 2) return {};  // no implementation masks what it writes
  const Problem p = problem_of(request, Direction::data, request.outputs[0], in[1], {}, in[0], false);
  return attempts(
      request, p, "onednn.convolution_backward_data",
      [&](dnnl::algorithm algorithm, const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        const auto hint = forward_hint(p, algorithm, d);
        if (!hint) return {};
        return compat::describe_backward<dnnl::convolution_backward_data>(cpu_engine(), attr, hint, algorithm, d.x, d.w, d.y,
                                                                          p.window.strides, p.dilations, p.window.begin, p.window.end);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(0));
        c.input(1, DNNL_ARG_WEIGHTS, pd.weights_desc(0), to_layout(p.filter, pd.weights_desc(0)));
        c.output(0, DNNL_ARG_DIFF_SRC, pd.diff_src_desc(0));
      });
}

std::vector<KernelDescription> describe_convolution_backward_weights(const KernelRequest& request) {
  const auto& in = request.inputs;
  if (!supported(request, in[0].shape) || in.size() > 2) return {};  // no implementation normalizes what it reads
  const Problem p = problem_of(request, Direction::weights, in[0], request.outputs[0], operand_at(request.outputs, 1), in[1], false);
  return attempts(
      request, p, "onednn.convolution_backward_weights",
      [&](dnnl::algorithm algorithm, const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        const auto hint = forward_hint(p, algorithm, d);
        if (!hint) return {};
        return compat::describe_backward<dnnl::convolution_backward_weights>(cpu_engine(), attr, hint, algorithm, d.x, d.w, d.b, d.y,
                                                                             p.window.strides, p.dilations, p.window.begin, p.window.end);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_SRC, pd.src_desc(0));
        c.input(1, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(0));
        c.output(0, DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(0), to_layout(p.filter, pd.diff_weights_desc(0)));
        if (p.b.present()) c.output(1, DNNL_ARG_DIFF_BIAS, pd.diff_weights_desc(1));
      });
}

std::vector<KernelDescription> describe_convolution_transpose(const KernelRequest& request) {
  const auto& in = request.inputs;
  if (!supported(request, in[0].shape)) return {};
  const Problem p = problem_of(request, Direction::forward, in[0], in[1], operand_at(in, 2), request.outputs[0], true);
  return attempts(
      request, p, "onednn.convolution_transpose",
      [&](dnnl::algorithm, const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        return compat::describe<dnnl::deconvolution_forward>(cpu_engine(), attr, dnnl::prop_kind::forward_training,
                                                             dnnl::algorithm::deconvolution_direct, d.x, d.w, d.b, d.y, p.window.strides,
                                                             p.dilations, p.window.begin, p.window.end);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_SRC, pd.src_desc(0));
        c.input(1, DNNL_ARG_WEIGHTS, pd.weights_desc(0), to_layout(p.filter, pd.weights_desc(0)));
        if (p.b.present()) c.input(2, DNNL_ARG_BIAS, pd.weights_desc(1));
        c.output(0, DNNL_ARG_DST, pd.dst_desc(0));
      });
}

}  // namespace tandem::onednn
