#include "batch/multipart.h"

#include <gmock/gmock.h>

namespace paceline::batch {
namespace {

using testing::HasSubstr;

constexpr const char* kType = "multipart/form-data; charset=utf-8; boundary=\"a b\"";

TEST(MultipartTest, FieldsAndFiles) {
  const auto parts =
      read_form(kType,
                "--a b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n"
                "batch\r\n--a b\r\ncontent-type: text/plain\r\n"
                "content-disposition: form-data; name=file; filename=\"x \\\"y\\\";z\""
                "\r\n\r\none\r\n--a\r\ntwo\r\n--a b--\r\n");
  ASSERT_TRUE(parts.has_value()) << parts.error().message();
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ(parts->at(0).name, "purpose");
  EXPECT_EQ(parts->at(0).content, "batch");
  EXPECT_EQ(parts->at(0).filename, "");
  EXPECT_EQ(parts->at(1).name, "file");
  EXPECT_EQ(parts->at(1).filename, "x \"y\";z");
  EXPECT_EQ(parts->at(1).content, "one\r\n--a\r\ntwo");
}

TEST(MultipartTest, AnEmptyPartAndAnEmptyForm) {
  const auto parts =
      read_form("multipart/form-data; boundary=x",
                "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--x--");
  ASSERT_TRUE(parts.has_value()) << parts.error().message();
  EXPECT_EQ(parts->at(0).content, "");
  EXPECT_TRUE(read_form("multipart/form-data; boundary=x", "--x--")->empty());
}

TEST(MultipartTest, WhatIsNoFormIsRefused) {
  const auto message = [](const std::string& type, const std::string& body) {
    const auto parts = read_form(type, body);
    return parts ? "accepted" : parts.error().message();
  };
  const std::string type = "multipart/form-data; boundary=x";
  EXPECT_THAT(message("multipart/form-data", "--x--"), HasSubstr("boundary"));
  EXPECT_THAT(message("multipart/form-data; boundary=" + std::string(71, 'x'), "--x--"),
              HasSubstr("boundary"));
  EXPECT_THAT(message(type, ""), HasSubstr("at its begin"));
  EXPECT_THAT(message(type, "--x"), HasSubstr("end behind"));
  EXPECT_THAT(message(type, "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb"),
              HasSubstr("no end"));
  EXPECT_THAT(message(type, "--x\r\nA: b\r\n\r\nb\r\n--x--"), HasSubstr("Content-Disposition"));
  EXPECT_THAT(message(type, "--x\r\nContent-Disposition: form-data; name=a\r\nb\r\n--x--"),
              HasSubstr("headers have no end"));
  EXPECT_THAT(message(type, "--x\r\nContent-Disposition: form-data\r\n\r\nb\r\n--x--"),
              HasSubstr("names"));
  std::string many;
  for (int i = 0; i < 33; ++i) {
    many += "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n";
  }
  EXPECT_THAT(message(type, many + "--x--"), HasSubstr("at most 32"));
}

}  // namespace
}  // namespace paceline::batch
