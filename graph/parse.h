// The text of a graph, as print() writes it and parse() reads it back, so that what a pass left (`--dump-passes`) can become a test.
//
//   graph NAME
//   group NAME on [0,1] samples[4,4]              devices, then the axes of their mesh with the parts along each
//   part of NAME [32,8] axis 0 from 16            what a graph of one device holds of a parameter, and of which whole
//   given VALUE         an input
//   trained VALUE       a parameter that the optimizer updates; kept VALUE: another one
//   known VALUE = [1.0,2.0]                       a constant; ... in place of more than 64 numbers: their values are 0 when read
//   VALUE, VALUE = DOMAIN::OPERATOR NAME(%1 x, -, 2.0) {axis=1, pads=[0,0]} from ORIGIN, ORIGIN
//   gives %3 y as loss
//
// VALUE: %NUMBER NAME TYPE, and perhaps, in this order: `on GROUP[split(0),partial]`, `as ROLE of NAME`, `opaque`, `batch` or
// `single` (whether it depends on the batch, where that is not as its operands have it), `samples(AXIS,OUTER)`, `in LAYOUT`,
// `template [32,20]`.
// Whoever writes by hand may leave numbers out, and types of what nodes give; a number as an operand is a constant of the first
// operand's type. A name that is more than letters, digits and _ . / : - stands in double quotes. # begins a comment.
// The values of parameters, and what warns of the model, are not part of the text.
#pragma once
#include <string_view>

#include "graph/graph.h"

namespace tandem {

// Fails with the line, what was wanted in it and what stands there; the graph has passed verify().
Graph parse(std::string_view text);

// Whether a name may have it outside of quotes.
inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_./:-").find(c) != std::string_view::npos;
}

}  // namespace tandem
