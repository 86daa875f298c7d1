// A layout's tag is one of oneDNN's own tags, or strides; filters in groups have an axis more in the library than in ONNX.
#include "kernels/cpu/onednn/layouts.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/layout_tag.h"

namespace tandem::onednn {
namespace {

using DataType = dnnl::memory::data_type;
using FormatTag = dnnl::memory::format_tag;

// oneDNN's own tags by name.
const std::map<std::string, FormatTag, std::less<>>& library_tags() {
  static const auto tags = [] {
    std::map<std::string, FormatTag, std::less<>> map;
    for (int t = dnnl_a; t < dnnl_format_tag_last; ++t)
      map.emplace(dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(t)), static_cast<FormatTag>(t));
    return map;
  }();
  return tags;
}

std::optional<Desc> to_desc(const Dims& dims, const Layout& layout, DataType type) {
  if (dims.empty() || dims.size() > DNNL_MAX_NDIMS || layout.opaque() || type == DataType::undef) return std::nullopt;
  if (layout.any()) return Desc(dims, type, FormatTag::any);
  if (layout.plain()) {
    Dims strides(dims.size());
    std::int64_t stride = 1;
    const LayoutTag tag = tag_of(layout);
    for (auto a = tag.axes.rbegin(); a != tag.axes.rend(); ++a) {
      const auto axis = static_cast<std::size_t>(*a);
      if (axis >= dims.size()) return std::nullopt;
      strides[axis] = stride;
      stride *= dims[axis];
    }
    return strided(dims, type, std::move(strides));
  }
  const auto tag = library_tags().find(layout.tag());
  if (tag == library_tags().end()) return std::nullopt;
  return compat::or_empty([&]() -> std::optional<Desc> { return Desc(dims, type, tag->second); });
}

// Strides that this tag would give, so that a name is only believed where it describes the same memory.
bool describes(const LayoutTag& tag, const Blocking& b) {
  std::int64_t stride = 1;
  for (const std::int64_t block : b.blocks) stride *= block;
  for (auto axis = tag.axes.rbegin(); axis != tag.axes.rend(); ++axis) {
    const auto i = static_cast<std::size_t>(*axis);
    if (b.strides[i] != stride) return false;
    stride *= b.padded[i] / tag.block(*axis);
  }
  return true;
}

// A filter's layout over [M, C/group, ...] as one over [group, M/group, C/group, ...]. The group and the rest of M
// stay neighbours, so this needs blocks of M that do not straddle groups. Where every group has one filter that axis
// has one trip and may stand on either side: the library knows some layouts by the one name, some by the other.
std::optional<Layout> split_groups(const Layout& layout, std::int64_t rest, bool rest_first) {
  if (layout.any()) return layout;
  const LayoutTag whole = tag_of(layout);
  const bool by_group = rest == 1;  // blocks of M are blocks of groups
  if (!by_group && rest % whole.block(0) != 0) return std::nullopt;
  LayoutTag tag;
  for (const int axis : whole.axes) {
    if (axis == 0 && rest_first) tag.axes.push_back(1);
    tag.axes.push_back(axis == 0 ? 0 : axis + 1);
    if (axis == 0 && !rest_first) tag.axes.push_back(1);
  }
  for (const auto& [axis, size] : whole.blocks) tag.blocks.push_back({axis == 0 && by_group ? 0 : axis + 1, size});
  return tag.layout();
}

std::optional<Layout> join_groups(const Layout& layout, std::int64_t rest) {
  const LayoutTag split = tag_of(layout);
  const bool by_group = rest == 1;
  if (by_group ? split.blocked(1) : split.blocked(0) || rest % split.block(1) != 0) return std::nullopt;
  LayoutTag tag;
  for (std::size_t i = 0; i < split.axes.size(); ++i) {
    const int axis = split.axes[i];
    if (axis == 0 && !by_group && (i + 1 == split.axes.size() || split.axes[i + 1] != 1)) return std::nullopt;
    if (axis != 1) tag.axes.push_back(std::max(axis - 1, 0));
  }
  for (const auto& [axis, size] : split.blocks) tag.blocks.push_back({std::max(axis - 1, 0), size});
  return tag.layout();
}

Layout swap_axes(const Layout& layout, int a, int b) {
  if (layout.any()) return layout;
  LayoutTag tag = tag_of(layout);
  const auto swapped = [&](int axis) { return axis == a ? b : axis == b ? a : axis; };
  for (int& axis : tag.axes) axis = swapped(axis);
  for (auto& [axis, size] : tag.blocks) axis = swapped(axis);
  return tag.layout();
}

}  // namespace

dnnl::memory::data_type data_type_of(DType dtype) {
  return dtype == DType::float32 ? DataType::f32 : dtype == DType::bfloat16 ? DataType::bf16 : DataType::undef;
}

Desc strided(const Dims& dims, dnnl::memory::data_type type, Dims strides) {
  std::int64_t outside = 1;  // the stride of what lies right outside of the axes seen so far
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) strides[i] = outside;
    outside = strides[i] * dims[i];
  }
  return Desc(dims, type, strides);
}

std::optional<Desc> to_desc(const Shape& shape, const Layout& layout, DType dtype) {
  return to_desc(Dims(shape.begin(), shape.end()), layout, data_type_of(dtype));
}

std::optional<Layout> to_layout(const Desc& desc) {
  const std::optional<Blocking> b = compat::blocking_of(desc);
  if (!b || b->dims.empty()) return std::nullopt;
  LayoutTag tag;
  for (std::size_t i = 0; i < b->blocks.size(); ++i) tag.blocks.push_back({static_cast<int>(b->axes[i]), b->blocks[i]});
  tag.axes.resize(b->dims.size());
  std::iota(tag.axes.begin(), tag.axes.end(), 0);
  // Outermost first: larger strides; among equal ones the loop of several trips, then those of one trip, in order.
  const auto key = [&](int axis) {
    const auto i = static_cast<std::size_t>(axis);
    return std::pair(-b->strides[i], b->padded[i] == tag.block(axis));
  };
  std::stable_sort(tag.axes.begin(), tag.axes.end(), [&](int l, int r) { return key(l) < key(r); });
  if (!describes(tag, *b)) return std::nullopt;
  Layout layout = tag.layout();
  if (!layout.plain() && !library_tags().contains(layout.tag())) {
    // The order of axes of one trip is free: take the library's name for this memory.
    const auto named = std::find_if(library_tags().begin(), library_tags().end(), [&](const auto& entry) {
      const auto [name, unused] = entry;
      if (name == "any" || name == "undef") return false;
      const std::optional<LayoutTag> other = LayoutTag::read(name);
      return other && other->axes.size() == tag.axes.size() && other->blocks == tag.blocks && describes(*other, *b);
    });
    if (named == library_tags().end()) return std::nullopt;
    layout = Layout(named->first);
  }
  const std::optional<Desc> back = to_desc(b->dims, layout, compat::data_type_of(desc));
  if (!back || back->get_size() != desc.get_size()) return std::nullopt;
  return layout;
}

Dims Filter::dims() const {
  Dims d(shape.begin(), shape.end());
  if (transposed) {
    d[0] /= group;
    std::swap(d[0], d[1]);
    if (group > 1) d.insert(d.begin(), group);
  } else if (group > 1) {
    d[0] /= group;
    d.insert(d.begin(), group);
  }
  return d;
}

std::optional<Desc> to_desc(const Filter& filter, const Layout& layout) {
  if (layout.opaque()) return std::nullopt;
  const std::int64_t rest = filter.shape[0] / filter.group;
  for (const bool rest_first : {false, true}) {
    std::optional<Layout> l = layout;
    const int first = filter.group > 1 ? 1 : 0;
    if (filter.group > 1) l = split_groups(layout, rest, rest_first);
    if (l && filter.transposed) l = swap_axes(*l, first, first + 1);
    if (l)
      if (const auto desc = to_desc(filter.dims(), *l, data_type_of(filter.dtype))) return desc;
    if (rest != 1) break;
  }
  return std::nullopt;
}

std::optional<Layout> to_layout(const Filter& filter, const Desc& desc) {
  std::optional<Layout> l = to_layout(desc);
  const int first = filter.group > 1 ? 1 : 0;
  if (l && filter.transposed) l = swap_axes(*l, first, first + 1);
  if (l && filter.group > 1) l = join_groups(*l, filter.shape[0] / filter.group);
  return l;
}

}  // namespace tandem::onednn
