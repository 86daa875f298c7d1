// Fully connected layers. The source may be a convolution's output in any layout: the flattening is part of the sum.
#include <algorithm>

#include "graph/layout_tag.h"
#include "kernels/cpu/describe.h"
#include "kernels/cpu/native/window.h"
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

struct Choice {
  Layout x, w, y;
  bool operator==(const Choice&) const = default;
};

struct Problem {
  Operand x, w, b, y;
};

struct Descs {
  Desc x, w, b, y;
};

std::optional<Descs> descs_of(const Problem& p, const Choice& c) {
  const auto x = to_desc(p.x, c.x), w = to_desc(p.w, c.w), y = to_desc(p.y, c.y);
  const auto b = p.b.present() ? to_desc(p.b, Layout::row_major(1)) : Desc();
  if (!x || !w || !y || !b) return std::nullopt;
  return Descs{*x, *w, *b, *y};
}

template <class Make, class Fill>
std::vector<KernelDescription> attempts(const KernelRequest& request, const Problem& p, const std::string& kernel, Make&& make,
                                        Fill&& fill) {
  if (!float_operands(request) || p.x.shape.rank() < 2 || p.x.shape.rank() > 5) return {};
  const ThreadScope threads(request.options.threads);
  const Layout rows = Layout::row_major(2);
  const bool relu = has_relu(*request.attributes);
  std::vector<KernelDescription> found;
  std::vector<Choice> tried;
  // As asked; with the filter of its choice; and with all of its choice.
  for (const Choice& choice : {Choice{p.x.layout, p.w.layout, p.y.layout},
                               {p.x.layout, {}, p.y.layout},
                               {p.x.layout, {}, rows},
                               {{}, p.w.layout, {}},
                               {{}, {}, {}}}) {
    if (std::find(tried.begin(), tried.end(), choice) != tried.end()) continue;
    if (!tried.empty() && is_replay(request)) break;
    tried.push_back(choice);
    const std::optional<Descs> descs = descs_of(p, choice);
    if (!descs) continue;
    const dnnl::primitive_desc_base pd = make(*descs, attributes(relu));
    if (!pd) continue;
    Candidate candidate(request, kernel, pd);
    if (relu) candidate.unrectified(make(Descs{pd.src_desc(0), pd.weights_desc(0), descs->b, pd.dst_desc(0)}, attributes()));
    fill(candidate, pd);
    std::move(candidate).add_to(found);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& l, const auto& r) { return l.efficiency > r.efficiency; });
  return found;
}

// dx = dy·w as a matrix product, where w lies as [features of x..., O]: in the inner product's own kernels that costs half
// as much again.
void add_product(const KernelRequest& request, const Problem& p, std::vector<KernelDescription>& found) {
  if (!p.w.layout.plain() || !float_operands(request)) return;
  LayoutTag tag = tag_of(p.w.layout);
  if (tag.axes.back() != 0) return;
  std::rotate(tag.axes.begin(), tag.axes.end() - 1, tag.axes.end());
  const std::int64_t samples = p.y.shape[0], outputs = p.y.shape[1], features = p.w.shape.elements() / outputs;
  const auto type = data_type_of(p.x.dtype);
  const Desc dy({samples, outputs}, type, Dims{outputs, 1}), w({outputs, features}, type, Dims{1, outputs}),
      dx({samples, features}, type, Dims{features, 1});
  const ThreadScope threads(request.options.threads);
  const auto pd = compat::describe<dnnl::matmul>(cpu_engine(), attributes(), dy, w, Desc(), dx);
  if (!pd) return;
  Candidate c(request, "onednn.inner_product_backward_data.product", pd);
  c.input(0, DNNL_ARG_SRC, dy, Layout::row_major(2));
  c.input(1, DNNL_ARG_WEIGHTS, w, p.w.layout);
  c.output(0, DNNL_ARG_DST, dx, tag.layout());
  std::move(c).add_to(found);
}

auto forward_hint(const Descs& d) {
  return compat::describe<dnnl::inner_product_forward>(cpu_engine(), attributes(), dnnl::prop_kind::forward_training, d.x, d.w, Desc(),
                                                       d.y);
}

}  // namespace

std::vector<KernelDescription> describe_inner_product(const KernelRequest& request) {
  const auto& in = request.inputs;
  const Problem p{in[0], in[1], operand_at(in, 2), request.outputs[0]};
  return attempts(
      request, p, "onednn.inner_product",
      [&](const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        return compat::describe<dnnl::inner_product_forward>(cpu_engine(), attr, dnnl::prop_kind::forward_training, d.x, d.w, d.b, d.y);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_SRC, pd.src_desc(0));
        c.input(1, DNNL_ARG_WEIGHTS, pd.weights_desc(0));
        if (p.b.present()) c.input(2, DNNL_ARG_BIAS, pd.weights_desc(1));
        c.output(0, DNNL_ARG_DST, pd.dst_desc(0));
      });
}

std::vector<KernelDescription> describe_inner_product_backward_data(const KernelRequest& request) {
  const auto& in = request.inputs;
  const Problem p{request.outputs[0], in[1], {}, in[0]};
  std::vector<KernelDescription> found = attempts(
      request, p, "onednn.inner_product_backward_data",
      [&](const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        const auto hint = forward_hint(d);
        if (!hint) return {};
        return compat::describe_backward<dnnl::inner_product_backward_data>(cpu_engine(), attr, hint, d.x, d.w, d.y);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(0));
        c.input(1, DNNL_ARG_WEIGHTS, pd.weights_desc(0));
        c.output(0, DNNL_ARG_DIFF_SRC, pd.diff_src_desc(0));
      });
  add_product(request, p, found);
  return found;
}

std::vector<KernelDescription> describe_inner_product_backward_weights(const KernelRequest& request) {
  const auto& in = request.inputs;
  const Problem p{in[0], request.outputs[0], operand_at(request.outputs, 1), in[1]};
  return attempts(
      request, p, "onednn.inner_product_backward_weights",
      [&](const Descs& d, const dnnl::primitive_attr& attr) -> dnnl::primitive_desc_base {
        const auto hint = forward_hint(d);
        if (!hint) return {};
        return compat::describe_backward<dnnl::inner_product_backward_weights>(cpu_engine(), attr, hint, d.x, d.w, d.b, d.y);
      },
      [&](Candidate& c, const dnnl::primitive_desc_base& pd) {
        c.input(0, DNNL_ARG_SRC, pd.src_desc(0));
        c.input(1, DNNL_ARG_DIFF_DST, pd.diff_dst_desc(0));
        c.output(0, DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(0));
        if (p.b.present()) c.output(1, DNNL_ARG_DIFF_BIAS, pd.diff_weights_desc(1));
      });
}

}  // namespace tandem::onednn
