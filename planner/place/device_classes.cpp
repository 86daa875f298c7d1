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

  // Devices that exchange with each other: the rows along an axis of a mesh, or pairs of the devices of two groups.
  struct Rows {
    std::vector<std::vector<int>> rows;
    std::vector<int> of;         // by device; -1: in none
    std::vector<int> by_classes;  // by row: rows of the same classes have one number
  };

  void find_exchanges() {
    for (const Graph& graph : classes_.graphs)
      for (const Node& node : graph.nodes)
        for (const std::string_view kind : {along_axis, between_groups})
          if (const Ints place = node.attributes.ints(kind, {}); !place.empty())
            if (const auto [it, fresh] = rows_.try_emplace({kind, place}); fresh) it->second = rows_of(kind, place);
  }

  Rows rows_of(std::string_view kind, const Ints& place) const {
    const DeviceGroup& first = group(static_cast<int>(place[0]));
    Rows all{.rows = {}, .of = std::vector<int>(at(devices_), -1), .by_classes = {}};
    for (std::size_t p = 0; p < first.devices.size(); ++p) {
      if (all.of[at(first.devices[p])] >= 0) continue;
      std::vector<int> row = kind == along_axis ? first.row_of(static_cast<int>(p), static_cast<std::size_t>(place[1]))
                                                : std::vector{first.devices[p], group(static_cast<int>(place[1])).devices[p]};
      for (const int d : row) all.of[at(d)] = static_cast<int>(all.rows.size());
      all.rows.push_back(std::move(row));
    }
    return all;
  }

  void number_by_classes(Rows& rows) const {
    std::map<std::vector<std::size_t>, int> known;
    rows.by_classes.clear();
    for (const std::vector<int>& row : rows.rows) {
      std::vector<std::size_t> classes;
      for (const int d : row) classes.push_back(classes_.of[at(d)]);
      rows.by_classes.push_back(known.try_emplace(std::move(classes), static_cast<int>(known.size())).first->second);
    }
  }

  // Parts a class whose devices exchange with devices of different classes; whether there was one.
  bool part_by_exchanges() {
    std::map<std::vector<int>, std::size_t> known;
    DeviceClasses parted;
    for (auto& [place, rows] : rows_) number_by_classes(rows);
    for (int d = 0; d < devices_; ++d) {
      const std::size_t c = classes_.of[at(d)];
      std::vector<int> key{static_cast<int>(c)};
      for (const auto& [place, rows] : rows_) key.push_back(rows.of[at(d)] < 0 ? -1 : rows.by_classes[at(rows.of[at(d)])]);
      const auto [it, fresh] = known.try_emplace(std::move(key), parted.graphs.size());
      if (fresh) {
        parted.graphs.push_back(classes_.graphs[c]);
        parted.outputs.push_back(classes_.outputs[c]);
      }
      parted.of.push_back(it->second);
    }
    if (parted.graphs.size() == classes_.graphs.size()) return false;
    classes_ = std::move(parted);
    return true;
  }

  // Who exchanges: all rows of the same classes as the device's own.
  void name_exchanges(std::size_t c) {
    const auto device = static_cast<std::size_t>(std::find(classes_.of.begin(), classes_.of.end(), c) - classes_.of.begin());
    for (Node& node : classes_.graphs[c].nodes) {
      Attributes& a = node.attributes;
      for (const std::string_view kind : {along_axis, between_groups}) {
        const Ints place = a.ints(kind, {});
        if (place.empty()) continue;
        const Rows& rows = rows_.at({kind, place});
        Ints members;
        std::int64_t count = 0;
        for (std::size_t r = 0; r < rows.rows.size(); ++r) {
          if (rows.by_classes[r] != rows.by_classes[at(rows.of[device])]) continue;
          members.insert(members.end(), rows.rows[r].begin(), rows.rows[r].end());
          ++count;
        }
        a.erase(kind);
        a.set("exchange", concat(a.text("exchange"), " of ", members[0]));
        a.set("devices", std::move(members));
        if (count > 1) a.set("rows", count);
      }
    }
  }

  const Graph& whole_;
  const int devices_;
  std::map<MeshPlace, std::set<std::vector<std::int64_t>>> proportions_;
  std::map<std::pair<std::vector<std::int64_t>, std::vector<int>>, std::vector<std::size_t>> by_size_;
  // By class, until they are parted by exchanges: the first device, and in what others must stand like it.
  std::vector<int> firsts_;
  std::vector<std::set<MeshPlace>> by_position_, by_first_;
  std::map<std::pair<std::string_view, Ints>, Rows> rows_;  // by what a node says of its exchange
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
