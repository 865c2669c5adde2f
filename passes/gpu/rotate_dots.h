// SPDX-License-Identifier: Apache-2.0
// Loops in which one dot is fed by what threads make of another one's sums: the second dot runs one iteration late.
//
//   for i: wait k[i];  s = dot(q, k[i]);      free k[i]
//          p = softmax(s)
//          wait v[i];  acc = dot(p, v[i], acc * shrink);  free v[i]
//
// waits for each of its dots. Rotated,
//
//   if there is an iteration:
//     wait k[0];  s = dot(q, k[0]);  free k[0];  p = softmax(s);  sums = acc * shrink
//     for i from the second on:
//       wait k[i];    start s = dot(q, k[i])
//       wait v[i-1];  start acc = dot(p, v[i-1], sums)
//       s has ended;    free k[i];    p = softmax(s)
//       acc has ended;  free v[i-1];  sums = acc * shrink
//     wait v[last];  acc = dot(p, v[last], sums);  free v[last]
//
// the late dot runs while the threads compute the next softmax, and the unit never waits for the first of two dots to end.
// Who copies k and v sees no difference: slots are freed by counters (plan_producer.h), one iteration later.
//
// It takes registers for one operand more (p), which have to be there. `behind` 0 of the late dot forbids it.
// Source: the idea is that of J. Shah et al., FlashAttention-3 (2024), section 3.2.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Loops of consumers, without barriers, with two dots that read slots by themselves. Requires, ensures: staged.
bool rotateDots(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
