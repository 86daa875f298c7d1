#include "planner/place/device_classes.h"

#include <algorithm>

#include "graph/operator.h"
#include "graph/views.h"
#include "planner/place/cut.h"

namespace tandem {
namespace {

class Classes {
 public:
  Classes(const Graph& whole, int devices) : whole_(whole), devices_(devices) {}

  DeviceClasses run() {
    find_proportions();
    for (int d = 0; d < devices_; ++d) classes_.of.push_back(class_of(d));
    find_exchanges();
    while (part_by_exchanges()) {
    }
    for (std::size_t c = 0; c < classes_.graphs.size(); ++c) name_exchanges(c);
    for (const Graph& graph : classes_.graphs) verify(graph);
    return std::move(classes_);
  }

 private:
  const DeviceGroup& group(int g) const { return whole_.groups[at(g)]; }

  // In which values are shared out along the axes of the meshes: their own, and those of parts that have others.
  void find_proportions() {
    for (int g = 0; g < std::ssize(whole_.groups); ++g)
      for (std::size_t a = 0; a < group(g).axes.size(); ++a) proportions_[{g, a}].insert(group(g).axes[a].sizes);
    for (const Value& v : whole_.values)
      for (std::size_t a = 0; a < v.placement.parts.size(); ++a)
        if (v.placement.group >= 0 && !v.placement.parts[a].sizes.empty())
          proportions_[{v.placement.group, a}].insert(v.placement.parts[a].sizes);
  }

  // In which groups a device is, and how much of everything it has.
  std::vector<std::int64_t> sizes_on(int device) const {
    std::vector<std::int64_t> sizes;
    for (const DeviceGroup& g : whole_.groups) sizes.push_back(g.position_of(device) < 0 ? -1 : 0);
    for (const auto& [place, proportions] : proportions_) {
      const int position = group(place.group).position_of(device);
      for (const std::vector<std::int64_t>& p : proportions)
        sizes.push_back(position < 0 ? -1 : p[at(group(place.group).position_along(position, place.axis))]);
    }
    return sizes;
  }

  // Where a device stands along an axis; -1: nowhere.
  int place_of(int device, MeshPlace place) const {
    const int position = group(place.group).position_of(device);
    return position < 0 ? -1 : group(place.group).position_along(position, place.axis);
  }
  bool is_first(int device, MeshPlace place) const {
    return place_of(device, place) == group(place.group).axes[place.axis].first_with_some();
  }

  std::size_t class_of(int device) {
    std::vector<int> outputs = outputs_on(whole_, device);
    std::vector<std::size_t>& alike = by_size_[{sizes_on(device), outputs}];
    for (const std::size_t c : alike) {
      const auto same = [&](const MeshPlace& p) { return place_of(device, p) == place_of(firsts_[c], p); };
      const auto same_end = [&](const MeshPlace& p) { return is_first(device, p) == is_first(firsts_[c], p); };
      if (std::ranges::all_of(by_position_[c], same) && std::ranges::all_of(by_first_[c], same_end)) return c;
    }
    DeviceGraph own = cut(whole_, device);
    alike.push_back(classes_.graphs.size());
    classes_.graphs.push_back(std::move(own.graph));
    classes_.outputs.push_back(std::move(outputs));
    by_position_.push_back(std::move(own.by_position));
    by_first_.push_back(std::move(own.by_first));
    firsts_.push_back(device);
    return alike.back();
  }

  void find_exchanges() {
    for (const Graph& graph : classes_.graphs)
      for (const Node& node : graph.nodes) {
        if (const Ints place = node.attributes.ints(along_axis, {}); !place.empty()) rows_along_.insert(place_in(place));
        if (const Ints groups = node.attributes.ints(between_groups, {}); !groups.empty()) sends_.insert(groups_in(groups));
      }
  }
  static MeshPlace place_in(const Ints& place) { return {static_cast<int>(place[0]), static_cast<std::size_t>(place[1])}; }
  static std::pair<int, int> groups_in(const Ints& groups) { return {static_cast<int>(groups[0]), static_cast<int>(groups[1])}; }

  // Those with whom a device exchanges, in order; none where it does not.
  std::vector<int> row_on(int device, MeshPlace place) const {
    const int position = group(place.group).position_of(device);
    return position < 0 ? std::vector<int>{} : group(place.group).row_of(position, place.axis);
  }
  std::vector<int> pair_on(int device, std::pair<int, int> groups) const {
    const DeviceGroup &from = group(groups.first), &to = group(groups.second);
    const int position = std::max(from.position_of(device), to.position_of(device));
    return position < 0 ? std::vector<int>{} : std::vector<int>{from.devices[at(position)], to.devices[at(position)]};
  }
  std::vector<std::size_t> classes_of(const std::vector<int>& row) const {
    std::vector<std::size_t> list;
    for (const int d : row) list.push_back(classes_.of[at(d)]);
    return list;
  }

  // Parts a class whose devices exchange with devices of different classes; whether there was one.
  bool part_by_exchanges() {
    std::map<std::vector<std::vector<std::size_t>>, std::size_t> known;
    std::vector<std::size_t> now;
    DeviceClasses parted;
    for (int d = 0; d < devices_; ++d) {
      std::vector<std::vector<std::size_t>> key{{classes_.of[at(d)]}};
      for (const MeshPlace& place : rows_along_) key.push_back(classes_of(row_on(d, place)));
      for (const auto& groups : sends_) key.push_back(classes_of(pair_on(d, groups)));
      const auto [it, fresh] = known.try_emplace(std::move(key), parted.graphs.size());
      if (fresh) {
        parted.graphs.push_back(classes_.graphs[classes_.of[at(d)]]);
        parted.outputs.push_back(classes_.outputs[classes_.of[at(d)]]);
      }
      parted.of.push_back(it->second);
    }
    if (parted.graphs.size() == classes_.graphs.size()) return false;
    classes_ = std::move(parted);
    return true;
  }

  struct Members {
    Ints devices;
    std::int64_t rows = 0;
  };
  // All rows of the same classes as the device's own.
  template <class RowOf>
  Members members(int device, const std::vector<int>& positions, const RowOf& row_of) const {
    const std::vector<std::size_t> own = classes_of(row_of(device));
    std::set<std::vector<int>> seen;
    Members all;
    for (const int d : positions) {
      const std::vector<int> row = row_of(d);
      if (classes_of(row) != own || !seen.insert(row).second) continue;
      all.devices.insert(all.devices.end(), row.begin(), row.end());
      ++all.rows;
    }
    return all;
  }

  void name_exchanges(std::size_t c) {
    const int device = static_cast<int>(std::find(classes_.of.begin(), classes_.of.end(), c) - classes_.of.begin());
    std::map<Ints, Members> along, between;
    for (Node& node : classes_.graphs[c].nodes) {
      Attributes& a = node.attributes;
      const Members* who = nullptr;
      if (const Ints place = a.ints(along_axis, {}); !place.empty()) {
        const auto [it, fresh] = along.try_emplace(place);
        if (fresh)
          it->second = members(device, group(place_in(place).group).devices, [&](int d) { return row_on(d, place_in(place)); });
        who = &it->second;
      }
      if (const Ints groups = a.ints(between_groups, {}); !groups.empty()) {
        const auto [it, fresh] = between.try_emplace(groups);
        if (fresh)
          it->second = members(device, group(groups_in(groups).first).devices, [&](int d) { return pair_on(d, groups_in(groups)); });
        who = &it->second;
      }
      if (!who) continue;
      a.erase(along_axis);
      a.erase(between_groups);
      a.set("exchange", concat(a.text("exchange"), " of ", who->devices[0]));
      a.set("devices", who->devices);
      if (who->rows > 1) a.set("rows", who->rows);
    }
  }

  const Graph& whole_;
  const int devices_;
  std::map<MeshPlace, std::set<std::vector<std::int64_t>>> proportions_;
  std::map<std::pair<std::vector<std::int64_t>, std::vector<int>>, std::vector<std::size_t>> by_size_;
  // By class, until they are parted by exchanges: the first device, and in what others must stand like it.
  std::vector<int> firsts_;
  std::vector<std::set<MeshPlace>> by_position_, by_first_;
  std::set<MeshPlace> rows_along_;
  std::set<std::pair<int, int>> sends_;
  DeviceClasses classes_;
};

}  // namespace

DeviceClasses cut_by_class(const Graph& whole, int devices) { return Classes(whole, devices).run(); }

BeginsOfParts begins_of_parts(const Graph& whole, int devices) {
  BeginsOfParts all;
  for (const Value& v : whole.values) {
    if (v.kind != ValueKind::parameter || v.placement.group < 0) continue;
    const auto cuts = std::ranges::count_if(v.placement.parts, &Part::is_split);
    if (cuts == 0) continue;
    const DeviceGroup& group = whole.groups[at(v.placement.group)];
    std::vector<std::vector<std::int64_t>>& begins = all[{v.role, v.name}];
    begins.assign(at(cuts), std::vector<std::int64_t>(at(devices)));
    for (std::size_t p = 0; p < group.devices.size(); ++p) {
      const std::vector<AxisRange> ranges = ranges_of(v, group, static_cast<int>(p));
      for (std::size_t i = 0; i < ranges.size(); ++i) begins[i][at(group.devices[p])] = ranges[i].begin;
    }
  }
  return all;
}

}  // namespace tandem
