#include "system/errno_error.h"

#include <gtest/gtest.h>

namespace paceline::system {
namespace {

TEST(ErrnoErrorTest, NumbersThatAUserCanMendHaveCodes) {
  EXPECT_EQ(code_of_errno(ENOENT), ErrorCode::kNotFound);
  EXPECT_EQ(code_of_errno(ENOTDIR), ErrorCode::kNotFound);
  EXPECT_EQ(code_of_errno(EEXIST), ErrorCode::kAlreadyExists);
  for (const int number : {EACCES, EPERM, EROFS}) {
    EXPECT_EQ(code_of_errno(number), ErrorCode::kPermissionDenied);
  }
  for (const int number : {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM}) {
    EXPECT_EQ(code_of_errno(number), ErrorCode::kResourceExhausted);
  }
  EXPECT_EQ(code_of_errno(EIO), ErrorCode::kInternal);
}

TEST(ErrnoErrorTest, TheSentenceNamesPathActionAndReason) {
  errno = ENOSPC;
  const Status now = fail_errno("/x/y", "write");
  EXPECT_EQ(now.error().message(), "/x/y: cannot write: No space left on device");
  const Status given = fail_errno("/x", "open", EISDIR);
  EXPECT_EQ(given.error().message(), "/x: cannot open: Is a directory");
  EXPECT_EQ(given.error().code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace paceline::system
