#include "system/errno_error.h"

#include <cstring>

namespace paceline::system {

ErrorCode code_of_errno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return ErrorCode::kResourceExhausted;
    default:
      return ErrorCode::kInternal;
  }
}

tl::unexpected<Error> fail_errno(const std::filesystem::path& path, const char* action,
                                 int number) {
  return fail(code_of_errno(number), "{}: cannot {}: {}", path.string(), action,
              std::strerror(number));
}

}  // namespace paceline::system
