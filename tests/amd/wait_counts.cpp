// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/wait_counts.h"

#include <algorithm>

namespace emulator {

namespace {

// Hardware holds an instruction back where a counter is at its end.
constexpr size_t kMostUnderWay = 63;

std::optional<WaitUse::Range> rangeOf(std::string_view text) {
  for (const std::string_view modifier : {"-", "neg(", "sext(", "abs(", "|"}) {
    text.remove_prefix(text.starts_with(modifier) ? modifier.size() : 0);
  }
  text = text.substr(0, text.find_first_of("|)"));
  const auto found = parseRegister(text);
  if (!found || found->index == kNull) {
    return std::nullopt;
  }
  return WaitUse::Range{found->index + (found->isVector ? unsigned{kScalars} : 0), found->count};
}

void addOperands(std::vector<WaitUse::Range> &ranges, const std::vector<std::string> &operands, size_t first) {
  for (size_t i = first; i < operands.size(); ++i) {
    if (const auto range = rangeOf(operands[i])) {
      ranges.push_back(*range);
    }
  }
}

std::string nameOf(unsigned place) {
  if (place < kScalars) {
    return place == kVcc ? "vcc_lo" : place == kVcc + 1 ? "vcc_hi" : place == kM0 ? "m0" : "s" + std::to_string(place);
  }
  const unsigned vector = place - kScalars;
  return vector < kFirstAcc ? "v" + std::to_string(vector) : "a" + std::to_string(vector - kFirstAcc);
}

Counter countedAs(Counter counter, const Machine &machine) {
  return machine.isGfx12                               ? counter
         : counter == Counter::Scalar                  ? Counter::Shared
         : counter == Counter::Stores && machine.isCdna ? Counter::Loads
                                                       : counter;
}

// "s_waitcnt vmcnt(3) lgkmcnt(0)", "s_waitcnt_vscnt null, 0x0", "s_wait_loadcnt_dscnt 0x102", "s_wait_idle"
std::vector<WaitUse::Wait> waitsOf(const Instruction &in) {
  constexpr std::pair<std::string_view, Counter> kNames[] = {
      {"vmcnt", Counter::Loads}, {"lgkmcnt", Counter::Shared}, {"vscnt", Counter::Stores}, {"loadcnt", Counter::Loads},
      {"storecnt", Counter::Stores}, {"dscnt", Counter::Shared}, {"kmcnt", Counter::Scalar}};
  std::vector<WaitUse::Wait> waits;
  if (in.name == "s_wait_idle") {
    for (const Counter counter : {Counter::Loads, Counter::Stores, Counter::Shared, Counter::Scalar}) {
      waits.push_back({counter, 0});
    }
    return waits;
  }
  const bool isPair = in.name == "s_wait_loadcnt_dscnt" || in.name == "s_wait_storecnt_dscnt";
  for (const auto &[name, counter] : kNames) {
    if (const size_t at = in.text.find(std::string(name) + "("); in.name == "s_waitcnt" && at != in.text.npos) {
      // "lgkmcnt(" holds no other name, nor does another one hold "vmcnt(".
      waits.push_back({counter, static_cast<unsigned>(std::stoul(in.text.substr(at + name.size() + 1)))});
    } else if (in.name == "s_waitcnt_" + std::string(name) || (in.name.starts_with("s_wait_") && in.name.find(name) != in.name.npos)) {
      const auto number = static_cast<unsigned>(std::stoul(in.operands.back(), nullptr, 0));
      waits.push_back({counter, !isPair ? number : counter == Counter::Shared ? number & 63 : number >> 8 & 63});
    }
  }
  return waits;
}

bool isVectorMemory(const std::string &name) {
  return name.starts_with("global_") || name.starts_with("scratch_") || name.starts_with("buffer_") || name.starts_with("flat_");
}

// Of gfx12 they are counted, as loads and stores; earlier ones have waits of their own behind them.
bool isCacheControl(const std::string &name) {
  return name.starts_with("buffer_inv") || name.starts_with("buffer_gl") || name.starts_with("buffer_wb") || name.starts_with("global_inv") ||
         name.starts_with("global_wb") || name.starts_with("global_prefetch");
}

void describeVectorMemory(WaitUse &use, const Instruction &in) {
  const bool isAtomic = in.name.find("_atomic_") != in.name.npos, isStore = in.name.find("_store_") != in.name.npos;
  const bool returns = in.has("glc") || in.has("sc0") || in.modifiers.find("TH_ATOMIC_RETURN") != in.modifiers.npos;
  use.copiesToShared = in.has("lds") || in.name.find("_load_lds_") != in.name.npos;
  const bool hasResult = !use.copiesToShared && (isAtomic ? returns : !isStore);
  use.counted.push_back(hasResult || use.copiesToShared ? Counter::Loads : Counter::Stores);
  use.isVectorMemory = !in.name.starts_with("flat_");
  if (!use.isVectorMemory) {
    use.counted.push_back(Counter::Shared);
    use.isUnordered = true;
  }
  // The data of an atomic of a buffer are where its result goes.
  const bool readsFirst = !hasResult || (isAtomic && in.name.starts_with("buffer_"));
  if (hasResult) {
    addOperands(use.arriving, {in.operands[0]}, 0);
  }
  addOperands(use.touched, in.operands, readsFirst ? 0 : 1);
}

void describeShared(WaitUse &use, const Instruction &in) {
  use.counted.push_back(Counter::Shared);
  const bool isStore = in.name.starts_with("ds_store_") || in.name.starts_with("ds_write"), returns = in.name.find("_rtn_") != in.name.npos;
  const bool reads = in.name.starts_with("ds_load_") || in.name.starts_with("ds_read") || in.name.find("permute_") != in.name.npos ||
                     in.name.starts_with("ds_swizzle_");
  use.writesShared = isStore || !reads;
  if (reads || returns) {
    addOperands(use.arriving, {in.operands[0]}, 0);
  }
  addOperands(use.touched, in.operands, 0);
}

bool isScalarLoad(const std::string &name) {
  return name.starts_with("s_load_") || name.starts_with("s_buffer_load_") || name == "s_memtime" || name == "s_memrealtime" ||
         name.starts_with("s_sendmsg_rtn_b");
}

} // namespace

WaitUse waitUseOf(const Instruction &in, const Machine &machine) {
  WaitUse use;
  use.text = in.text;
  if (in.name.starts_with("s_wait")) {
    use.waits = waitsOf(in);
  } else if (isCacheControl(in.name)) {
    if (machine.isGfx12 && !in.name.starts_with("global_prefetch")) {
      use.counted.push_back(in.name.starts_with("global_inv") ? Counter::Loads : Counter::Stores);
    }
  } else if (isVectorMemory(in.name)) {
    describeVectorMemory(use, in);
  } else if (in.name.starts_with("ds_")) {
    describeShared(use, in);
  } else if (isScalarLoad(in.name)) {
    use.counted.push_back(Counter::Scalar);
    use.isUnordered = true;
    addOperands(use.arriving, {in.operands[0]}, 0);
    addOperands(use.touched, in.operands, 0);
  } else if (in.name == "s_sendmsg") {
    use.counted.push_back(Counter::Scalar);
    use.isUnordered = true;
  } else {
    use.isBarrier = in.name == "s_barrier" || in.name.starts_with("s_barrier_signal");
    addOperands(use.touched, in.operands, 0);
    if (in.second) {
      addOperands(use.touched, parseInstruction(in.text.substr(*in.second)).operands, 0);
    }
    if (in.name.starts_with("s_cbranch_vcc") || in.name.starts_with("v_div_fmas_")) {
      use.touched.push_back({kVcc, 2});
    }
  }
  for (Counter &counter : use.counted) {
    counter = countedAs(counter, machine);
  }
  return use;
}

void UnderWay::check(const WaitUse &use) const {
  for (const auto &[first, count] : use.touched) {
    for (unsigned place = first; place < first + count; ++place) {
      if (arriving_[place] != 0) {
        refuse(place);
      }
    }
  }
  const auto &others = use.isVectorMemory ? elsewhere_ : arriving_;
  for (const auto &[first, count] : use.arriving) {
    for (unsigned place = first; place < first + count; ++place) {
      if (others[place] != 0) {
        refuse(place);
      }
    }
  }
}

void UnderWay::refuse(unsigned place) const {
  for (const Queue &queue : queues_) {
    for (const WaitUse *use : queue.uses) {
      for (const auto &[first, count] : use->arriving) {
        if (place >= first && place < first + count) {
          throw Fault(nameOf(place) + " has not arrived: no wait covers `" + use->text + "`");
        }
      }
    }
  }
  throw Fault(nameOf(place) + " has not arrived");
}

void UnderWay::count(const WaitUse &use) {
  for (const auto &[counter, remaining] : use.waits) {
    wait(queues_[static_cast<size_t>(counter)], remaining);
  }
  if (use.isBarrier) {
    for (const WaitUse *other : queues_[static_cast<size_t>(Counter::Shared)].uses) {
      if (other->writesShared) {
        throw Fault("waves meet while LDS is being written: no wait covers `" + other->text + "`");
      }
    }
  }
  for (const Counter counter : use.counted) {
    Queue &queue = queues_[static_cast<size_t>(counter)];
    if (queue.uses.size() >= kMostUnderWay) {
      wait(queue, kMostUnderWay - 1);
    }
    queue.uses.push_back(&use);
    queue.unordered += use.isUnordered ? 1 : 0;
    for (const auto &[first, count] : use.arriving) {
      for (unsigned place = first; place < first + count; ++place) {
        ++arriving_[place];
        elsewhere_[place] = static_cast<uint8_t>(elsewhere_[place] + (use.isVectorMemory ? 0 : 1));
      }
    }
    registers_ += use.arriving.empty() ? 0 : 1;
  }
}

// What returns in order has returned for sure where it is older than `remaining` others, and all that return in any order, too.
void UnderWay::wait(Queue &queue, unsigned remaining) {
  if (remaining == 0) {
    for (const WaitUse *use : queue.uses) {
      land(*use);
    }
    queue.uses.clear();
    queue.unordered = 0;
    return;
  }
  const size_t sure = remaining + size_t{queue.unordered};
  for (size_t i = 0, landed = queue.uses.size() > sure ? queue.uses.size() - sure : 0; landed > 0;) {
    if (queue.uses[i]->isUnordered) {
      ++i;
      continue;
    }
    land(*queue.uses[i]);
    queue.uses.erase(queue.uses.begin() + static_cast<int64_t>(i));
    --landed;
  }
}

void UnderWay::land(const WaitUse &use) {
  for (const auto &[first, count] : use.arriving) {
    for (unsigned place = first; place < first + count; ++place) {
      --arriving_[place];
      elsewhere_[place] = static_cast<uint8_t>(elsewhere_[place] - (use.isVectorMemory ? 0 : 1));
    }
  }
  registers_ -= use.arriving.empty() ? 0 : 1;
  copiesLanded_ += use.copiesToShared ? 1 : 0;
}

} // namespace emulator
