#include "graph/placement.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tandem {

std::string_view name_of(Spread spread) {
  switch (spread) {
    case Spread::broadcast: return "broadcast";
    case Spread::split: return "split";
    case Spread::partial: return "partial";
    case Spread::own: return "own";
  }
  return "";
}

Part Part::runs(int axis, std::vector<std::int64_t> lengths) {
  std::int64_t unit = 0;
  for (const std::int64_t length : lengths) unit = std::gcd(unit, length);
  for (std::int64_t& length : lengths) length /= unit;
  Part part = split(axis, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  if (part.outer != std::ssize(lengths)) part.widths = std::move(lengths);
  return part;
}

std::int64_t MeshAxis::total() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

std::int64_t MeshAxis::begin(int position) const { return std::accumulate(sizes.begin(), sizes.begin() + position, std::int64_t{0}); }

int MeshAxis::first_with_some() const {
  const auto some = std::find_if(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 0; });
  return some == sizes.end() ? 0 : static_cast<int>(some - sizes.begin());
}

bool MeshAxis::one_has_all() const {
  return length() > 1 && std::count_if(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 0; }) == 1;
}

int DeviceGroup::position_of(int device) const {
  const auto at = std::find(devices.begin(), devices.end(), device);
  return at == devices.end() ? -1 : static_cast<int>(at - devices.begin());
}

namespace {

// How far apart two neighbours along an axis stand in the list of devices.
int stride_of(const DeviceGroup& group, std::size_t axis) {
  int stride = 1;
  for (std::size_t a = axis + 1; a < group.axes.size(); ++a) stride *= group.axes[a].length();
  return stride;
}

}  // namespace

int DeviceGroup::position_along(int position, std::size_t axis) const { return position / stride_of(*this, axis) % axes[axis].length(); }

std::vector<int> DeviceGroup::row_of(int position, std::size_t axis) const {
  const int stride = stride_of(*this, axis), first = position - position_along(position, axis) * stride;
  std::vector<int> row;
  for (int i = 0; i < axes[axis].length(); ++i) row.push_back(devices[static_cast<std::size_t>(first + i * stride)]);
  return row;
}

bool make_up(const std::vector<std::int64_t>& widths, std::int64_t units) {
  for (const std::int64_t width : widths) {
    if (width < 1 || width > units) return false;
    units -= width;
  }
  return widths.empty() || units == 0;
}

std::optional<Shape> shape_of(const Shape& whole, std::span<const AxisRange> part) {
  Shape shape = whole;
  for (const AxisRange& r : part) {
    if (r.axis < 0 || r.axis >= whole.rank() || r.outer < 1 || shape[r.axis] % r.outer != 0 || !make_up(r.widths, r.outer))
      return std::nullopt;
    const std::int64_t run = shape[r.axis] / r.outer;
    if (r.begin < 0 || r.begin > run || r.size < 0 || r.size > run - r.begin) return std::nullopt;
    shape[r.axis] = r.outer * r.size;
  }
  return shape;
}

std::optional<std::vector<IndexRun>> runs_of(std::int64_t size, int axis, std::span<const AxisRange> part) {
  constexpr std::size_t most = 65536;
  std::vector<IndexRun> runs{{0, size}};
  for (const AxisRange& r : part) {
    if (r.axis != axis) continue;
    const std::int64_t each = size / r.outer;
    if (r.size == each) continue;  // all of it
    std::vector<IndexRun> kept;
    std::int64_t before = 0, unit = 0;  // indices of the runs that are passed; units that are
    std::size_t i = 0;
    const std::int64_t count = r.widths.empty() ? r.outer : std::ssize(r.widths);
    for (std::int64_t o = 0; o < count && r.size > 0; ++o) {
      const std::int64_t width = r.widths.empty() ? 1 : r.widths[static_cast<std::size_t>(o)];
      for (std::int64_t at = unit * each + width * r.begin, end = at + width * r.size; at < end;) {
        for (; before + runs[i].end - runs[i].begin <= at; ++i) before += runs[i].end - runs[i].begin;
        const std::int64_t first = runs[i].begin + at - before, last = std::min(runs[i].end, first + end - at);
        if (!kept.empty() && kept.back().end == first)
          kept.back().end = last;
        else
          kept.push_back({first, last});
        at += last - first;
        if (kept.size() > most) return std::nullopt;
      }
      unit += width;
    }
    runs = std::move(kept);
    size = r.outer * r.size;
  }
  return runs;
}

Shape local_shape(const Shape& shape, const Placement& placement, const DeviceGroup& group, int position) {
  Shape local = shape;
  for (std::size_t a = placement.parts.size(); a-- > 0;) {
    const Part& part = placement.parts[a];
    if (!part.is_split()) continue;
    const MeshAxis mesh = group.axes[a].as(part);
    const std::int64_t dim = local[part.axis], unit = part.outer * mesh.total();
    if (unit == 0 || dim % unit != 0)
      fail(ExitCode::usage, "axis ", part.axis, " of ", shape, " cannot be split as ", mesh.total(), " parts of mesh axis '", mesh.name,
           "'");
    local[part.axis] = dim / unit * part.outer * mesh.sizes[static_cast<std::size_t>(group.position_along(position, a))];
  }
  return local;
}

std::string to_string(const Part& part) {
  if (!part.is_split()) return std::string(name_of(part.spread));
  std::string text = concat("split(", part.axis, part.outer == 1 ? "" : concat(", ", part.outer, " outside"));
  for (std::size_t i = 0; i < part.widths.size(); ++i) text += concat(i > 0 ? ":" : " in runs of ", part.widths[i]);
  for (std::size_t i = 0; i < part.sizes.size(); ++i) text += concat(i > 0 ? ":" : " as ", part.sizes[i]);
  return text + ")";
}

std::string to_string(const Placement& placement, std::span<const DeviceGroup> groups) {
  if (placement.group < 0) return {};
  const DeviceGroup& group = groups[static_cast<std::size_t>(placement.group)];
  std::string text = groups.size() > 1 ? concat(group.name, group.axes.empty() ? "" : ": ") : std::string();
  for (std::size_t a = 0; a < placement.parts.size(); ++a)
    text +=
        concat(a > 0 ? ", " : "", group.axes.size() > 1 ? concat(group.axes[a].name, ' ') : std::string(), to_string(placement.parts[a]));
  return text;
}

}  // namespace tandem
