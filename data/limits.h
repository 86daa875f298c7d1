// What a data file may take at most, by the bytes that it holds, so that a small hostile file cannot ask for much: counted before
// memory is taken or work is done. docs/reliability.md has a row for each reader.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tandem::data_limits {

// Memory at a time, and what a compressed file may grow to: so many bytes, and so many for each byte of the file.
inline constexpr std::uint64_t held_bytes = std::uint64_t{1} << 30, held_factor = 64;
// All that is decoded in one pass over a file, whether or not it is held at once. A run of five bytes may stand for many values.
inline constexpr std::uint64_t decoded_bytes = std::uint64_t{1} << 30, decoded_factor = 2048;
// Columns of a table, and the bytes of their names together.
inline constexpr std::size_t columns = std::size_t{1} << 20, column_names = std::size_t{64} << 20;
inline constexpr int nested_columns = 100;  // groups in groups
// A field of a table of text, or the line of its header; an object of JSON, of which two bytes may become a value of 40.
inline constexpr std::size_t text_bytes = std::size_t{64} << 20, json_bytes = std::size_t{16} << 20;
// Of one image: its file, its pixels, those of a side, passes over its pixels (a progressive JPEG has ten).
inline constexpr std::int64_t image_bytes = std::int64_t{1} << 30;
inline constexpr std::uint64_t pixels = std::uint64_t{1} << 27, side = std::uint64_t{1} << 17;
inline constexpr int scans = 32;
// Images that are decoded at the same time, by all threads of the process. One alone may take more.
inline constexpr std::uint64_t images_at_a_time = std::uint64_t{512} << 20;

}  // namespace tandem::data_limits
