// SPDX-License-Identifier: Apache-2.0
#include "runtime/errors.h"

#include "runtime/drivers/driver.h"

#include <new>

namespace libtile::runtime {

ErrorRecord describeError(const std::exception &error) {
  ErrorRecord record;
  record.text = record.message = error.what();
  if (dynamic_cast<const std::bad_alloc *>(&error) != nullptr) {
    record.kind = ErrorKind::User;
    record.text = record.message = "out of memory";
    return record;
  }
  const auto *ours = dynamic_cast<const ir::Error *>(&error);
  if (ours == nullptr) {
    return record;
  }
  record.message = ours->message();
  const ir::Location &location = ours->location();
  if (location.known()) {
    const ir::Location &place = location.place();
    record.file = place.file->name;
    record.line = static_cast<int>(place.line + place.file->firstLine - 1);
    record.column = static_cast<int>(place.column);
    record.text = location.render(record.message);
  } else {
    record.text = record.message;
  }
  if (dynamic_cast<const DeviceError *>(ours) != nullptr) {
    record.kind = ErrorKind::Device;
  } else if (dynamic_cast<const ir::UserError *>(ours) != nullptr) {
    record.kind = ErrorKind::User;
  } else if (dynamic_cast<const ir::Unsupported *>(ours) != nullptr) {
    record.kind = ErrorKind::Unsupported;
  } else if (const auto *internal = dynamic_cast<const ir::InternalError *>(ours)) {
    record.reproducer = internal->reproducer();
    record.text = "internal error, please report it: " + record.text;
  }
  return record;
}

} // namespace libtile::runtime
