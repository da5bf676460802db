#include "obs/request_log.h"

#include <gtest/gtest.h>

namespace paceline::obs {
namespace {

RequestRecord record(const std::string& id) {
  RequestRecord made;
  made.id = id;
  return made;
}

std::string ids(const std::vector<RequestRecord>& records) {
  std::string all;
  for (const RequestRecord& one : records) all += one.id + ' ';
  return all;
}

TEST(RequestLogTest, KeepsTheLastOnes) {
  RequestLog log(3);
  EXPECT_TRUE(log.after(0).empty());
  for (const char* id : {"a", "b", "c", "d"}) log.add(record(id));
  EXPECT_EQ(ids(log.after(0)), "b c d ");
  EXPECT_EQ(log.after(0).front().number, 2U);
  EXPECT_EQ(ids(log.after(3)), "d ");
  EXPECT_EQ(ids(log.after(4)), "");
  EXPECT_EQ(ids(log.after(99)), "");
}

TEST(RequestLogTest, WhatHasFailedIsThereOnce) {
  RequestLog log;
  log.add(record("a"));
  log.add_refused(record("a"));
  log.add_refused(record("b"));
  EXPECT_EQ(ids(log.after(0)), "a b ");
}

TEST(RequestLogTest, LongTextsAreCut) {
  RequestLog log;
  RequestRecord long_one = record(std::string(1 << 20, 'i'));
  long_one.model = long_one.tenant = long_one.route = long_one.id;
  log.add(long_one);
  log.add_refused(long_one);
  const auto records = log.after(0);
  ASSERT_EQ(records.size(), 1U) << "the same id, though it was cut";
  for (const auto* text :
       {&records[0].id, &records[0].model, &records[0].tenant, &records[0].route}) {
    EXPECT_EQ(text->size(), 128U);
  }
}

}  // namespace
}  // namespace paceline::obs
