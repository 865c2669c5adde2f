// SPDX-License-Identifier: Apache-2.0
// A reduction over all axes comes as a reshape to one axis and a reduce along it. Where extents are
// no powers of two, that reshape would move data; reducing axis by axis, the last first, joins the
// same elements in the same order:
//
//   %f = reshape %x : tile<816xf32>          %r = reduce %x {axis=1} : tile<17xf32>
//   %s = reduce %f {axis=0} : f32       ->   %s = reduce %r {axis=0} : f32
//
// An arange over the flat index, as in argmax, becomes the index of the element.
#pragma once

#include "ir/function.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: no such reduce is left whose combination has no regions of its
// own.
void splitFlatReduces(ir::Function &fn);

} // namespace libtile::passes
