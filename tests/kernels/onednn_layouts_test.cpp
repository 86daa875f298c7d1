// Layouts as oneDNN's descriptors and back, for every tag the library names.
#include "kernels/cpu/onednn/layouts.h"

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

using FormatTag = dnnl::memory::format_tag;
using DataType = dnnl::memory::data_type;

struct LibraryTag {
  FormatTag tag;
  std::string name;
  int rank;
};

// One entry a layout: several tags of the library share one value.
std::vector<LibraryTag> library_tags() {
  std::vector<LibraryTag> tags;
  for (int t = dnnl_a; t < dnnl_format_tag_last; ++t) {
    const std::string name = dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(t));
    const auto rank = std::find_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalpha(c); }) - name.begin();
    tags.push_back({static_cast<FormatTag>(t), name, static_cast<int>(rank)});
  }
  return tags;
}

// Sizes that fill blocks, leave some of them padded, and make axes of one trip.
const Ints sizes[] = {{64, 64, 4, 3, 2, 3, 2, 2, 2, 2, 2, 2}, {19, 7, 5, 3, 2, 2, 2, 2, 2, 2, 2, 2}, {16, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                      {1, 33, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};

TEST(Layouts, EveryTagOfTheLibraryGoesThereAndBack) {
  int checked = 0;
  for (const LibraryTag& tag : library_tags())
    for (const Ints& size : sizes) {
      const Shape shape(Ints(size.begin(), size.begin() + tag.rank));
      const Desc desc(Dims(shape.begin(), shape.end()), DataType::f32, tag.tag);
      const std::optional<Layout> layout = to_layout(desc);
      ASSERT_TRUE(layout) << tag.name << ' ' << to_string(shape);
      EXPECT_EQ(static_cast<std::size_t>(physical_elements(shape, *layout)) * sizeof(float), desc.get_size())
          << tag.name << " as " << layout->tag();
      const std::optional<Desc> back = to_desc(shape, *layout);
      ASSERT_TRUE(back) << tag.name << " as " << layout->tag();
      for (int axis = 0; axis < tag.rank; ++axis) {  // those of axes of one say nothing
        const auto i = static_cast<std::size_t>(axis);
        EXPECT_TRUE(shape[axis] == 1 || compat::blocking_of(*back)->strides[i] == compat::blocking_of(desc)->strides[i])
            << tag.name << " as " << layout->tag() << ", axis " << axis;
      }
      EXPECT_TRUE(*back == desc) << tag.name << " as " << layout->tag();
      if (&size == &sizes[0]) {
        EXPECT_EQ(layout->tag(), tag.name);
      }
      ++checked;
    }
  EXPECT_GT(checked, 500);
}

TEST(Layouts, AnyPermutationIsALayout) {
  std::string tag = "abcde";
  do {
    const Shape shape{2, 3, 4, 5, 6};
    const std::optional<Desc> desc = to_desc(shape, Layout(tag));
    ASSERT_TRUE(desc) << tag;
    EXPECT_EQ(to_layout(*desc)->tag(), tag);
  } while (std::next_permutation(tag.begin(), tag.end()));
}

// One memory, one descriptor: the library takes descriptors that differ in strides of axes of one for the same.
TEST(Layouts, OfOneMemoryAreOneDescriptor) {
  for (const auto& [shape, tags] : std::vector<std::pair<Shape, std::vector<const char*>>>{{{2, 1, 3, 4}, {"abcd", "acdb", "bacd", "acbd"}},
                                                                                           {{1, 5}, {"ab", "ba"}},
                                                                                           {{5, 1}, {"ab", "ba"}},
                                                                                           {{3, 1, 1}, {"abc", "bca", "cab"}},
                                                                                           {{1, 1}, {"ab", "ba"}}})
    for (const char* tag : tags)
      EXPECT_EQ(compat::blocking_of(*to_desc(shape, Layout(tag)))->strides, compat::blocking_of(*to_desc(shape, Layout(tags[0])))->strides)
          << tag;
}

TEST(Layouts, WhatIsNotPackedOrNotKnownIsDeclined) {
  EXPECT_FALSE(to_desc(Shape{2, 3}, Layout("aB7b")));
  EXPECT_FALSE(to_desc(Shape{2, 3}, Layout::opaque("onednn")));
  EXPECT_FALSE(to_desc(Shape{}, Layout("a")));
  EXPECT_FALSE(to_layout(Desc()));
  EXPECT_FALSE(to_layout(Desc({2, 3}, DataType::f32, FormatTag::any)));
  EXPECT_FALSE(to_layout(Desc({2, 3}, DataType::f32, Dims{8, 1}))) << "rows with gaps";
  EXPECT_FALSE(to_layout(Desc({2, 48, 3, 3}, DataType::f32, FormatTag::aBcd16b).submemory_desc({2, 16, 3, 3}, {0, 16, 0, 0}))) << "a part";
}

TEST(Layouts, FiltersOfGroups) {
  struct Row {
    std::string name;
    Filter filter;
    FormatTag tag;       // oneDNN's, with the group as axis a
    std::string layout;  // ONNX's; empty: there is none
  };
  const Row rows[] = {
      {"one group", {{32, 16, 3, 3}}, FormatTag::ABcd16b16a, "ABcd16b16a"},
      {"plain groups", {{32, 16, 3, 3}, 2}, FormatTag::abcde, "abcd"},
      {"blocks within groups", {{64, 32, 3, 3}, 2}, FormatTag::aBCde16c16b, "ABcd16b16a"},
      {"blocks that straddle groups", {{48, 16, 3, 3}, 2}, FormatTag::aBCde16c16b, ""},
      {"depthwise", {{40, 1, 3, 3}, 40}, FormatTag::Abcde16a, "Abcd16a"},
      {"depthwise, groups innermost", {{40, 1, 3, 3}, 40}, FormatTag::decab, "cdba"},
      {"transposed", {{32, 16, 3, 3}, 1, true}, FormatTag::abcd, "bacd"},
      {"transposed, blocked", {{32, 16, 3, 3}, 1, true}, FormatTag::ABcd16b16a, "BAcd16a16b"},
      {"transposed groups", {{32, 16, 3, 3}, 2, true}, FormatTag::aBCde16b16c, ""},
      {"transposed groups, plain", {{32, 16, 3, 3}, 2, true}, FormatTag::abcde, ""},
      {"transposed groups, inputs first", {{32, 16, 3, 3}, 2, true}, FormatTag::acbde, "abcd"},
  };
  for (const Row& row : rows) {
    const Desc desc(row.filter.dims(), DataType::f32, row.tag);
    const std::optional<Layout> layout = to_layout(row.filter, desc);
    EXPECT_EQ(layout ? layout->tag() : "", row.layout) << row.name;
    if (!layout) continue;
    const std::optional<Desc> back = to_desc(row.filter, *layout);
    ASSERT_TRUE(back) << row.name;
    EXPECT_TRUE(*back == desc) << row.name;
  }
}

}  // namespace
}  // namespace tandem::onednn
