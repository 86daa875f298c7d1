// Where values live. A graph speaks of whole values; which devices hold one, and as what, is its placement. Devices work in
// groups, and those of a group stand along the axes of a mesh. Along each of these a value is, on the devices,
//   broadcast  the whole value on each,
//   split      a part of one of its axes on each, in the proportion that the mesh axis says,
//   partial    an addend on each: the value is their sum,
//   own        what each has made of its part of something else, which is no part of a whole (statistics of its own samples, a
//              mask); and all that is made of samples where one device has all of them: the others have nothing of it.
// Source: the split, broadcast and partial-sum signatures of Yuan et al., "OneFlow", 2021; Xu et al., "GSPMD", 2021.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/shape.h"

namespace tandem {

enum class Spread { broadcast, split, partial, own };
std::string_view name_of(Spread spread);

// A value along one axis of a mesh.
struct Part {
  Spread spread = Spread::broadcast;
  int axis = -1;           // of the value, where it is split: its dimension is outer * (parts together) * inner
  std::int64_t outer = 1;
  std::vector<std::int64_t> sizes{};  // of the parts, where they are not in the mesh axis's proportion
  // Of runs that are not of one width: how many of the `outer` units each has. A part is as much of each run, and lies together there.
  std::vector<std::int64_t> widths{};
  bool operator==(const Part&) const = default;
  static Part split(int axis, std::int64_t outer = 1) { return {Spread::split, axis, outer, {}, {}}; }
  // An axis that is made up of runs of these lengths, each in parts. The lengths are positive.
  static Part runs(int axis, std::vector<std::int64_t> lengths);
  bool is_split() const { return spread == Spread::split; }
};

// Devices in a row, and the proportion in which what is split along it is shared out; a part may be nothing.
struct MeshAxis {
  std::string name;
  std::vector<std::int64_t> sizes;
  bool samples = false;                    // what holds samples is split by them along it
  int length() const { return static_cast<int>(sizes.size()); }
  std::int64_t total() const;
  std::int64_t begin(int position) const;  // the sizes before it together
  int first_with_some() const;             // the first position that has something of what is split; 0 where none has
  // in the part's proportion
  MeshAxis as(const Part& part) const { return part.sizes.empty() ? *this : MeshAxis{name, part.sizes, samples}; }
  bool one_has_all() const;                // of several devices one has all of what is split, as with a batch of one
  bool operator==(const MeshAxis&) const = default;
};

struct DeviceGroup {
  std::string name;
  std::vector<MeshAxis> axes;
  std::vector<int> devices;              // of the plan; the last axis runs fastest
  int position_of(int device) const;     // in `devices`; -1: none of them
  int position_along(int position, std::size_t axis) const;
  // The devices that differ from this one along that axis alone, in their order: who exchanges with it.
  std::vector<int> row_of(int position, std::size_t axis) const;
  bool operator==(const DeviceGroup&) const = default;
};

struct Placement {
  int group = -1;           // of the graph's; -1: on whichever device reads it, the same on all
  std::vector<Part> parts;  // by the group's mesh axis
  bool operator==(const Placement&) const = default;
};

// Of an axis of a tensor: `size` indices from `begin` on in each of its `outer` equal runs. With `widths`, whose sum is `outer`, these are
// units: a run of w units has w * size indices, from w * begin on.
struct AxisRange {
  int axis = 0;
  std::int64_t begin = 0, size = 0, outer = 1;
  std::vector<std::int64_t> widths{};
  bool operator==(const AxisRange&) const = default;
};
// Whether the widths of runs, where there are any, make up so many units.
bool make_up(const std::vector<std::int64_t>& widths, std::int64_t units);
// Several ranges are a part of a tensor: each is of what those before it leave. The part's shape; absent where they do not fit `whole`.
std::optional<Shape> shape_of(const Shape& whole, std::span<const AxisRange> part);
// Consecutive indices of an axis: [begin, end).
struct IndexRun {
  std::int64_t begin = 0, end = 0;
};
// What a part that fits has of an axis of `size` indices. Absent where it is in more than 65,536 runs.
std::optional<std::vector<IndexRun>> runs_of(std::int64_t size, int axis, std::span<const AxisRange> part);

// The part of `shape` that the device in that position of the group holds. Fails (usage) where a dimension cannot be shared
// out so.
Shape local_shape(const Shape& shape, const Placement& placement, const DeviceGroup& group, int position);
std::string to_string(const Part& part);                                          // "split(0)", "split(1, 4 outside)"
// "batch: split(0)"; empty where it is placed nowhere
std::string to_string(const Placement& placement, std::span<const DeviceGroup> groups);

}  // namespace tandem
