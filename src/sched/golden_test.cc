// Transcripts: each file of golden/ is a script, and what the scheduler answers stands below each
// line after "> ". On a difference the whole transcript is printed as it would be now.
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "sched/scheduler.h"

namespace paceline::sched {
namespace {

using Tokens = std::vector<std::int64_t>;

/// "4", "1,2,3" or "10..13".
Tokens parse_tokens(const std::string& text) {
  Tokens tokens;
  const std::size_t dots = text.find("..");
  if (dots != std::string::npos) {
    for (std::int64_t t = std::stoll(text); t <= std::stoll(text.substr(dots + 2)); ++t) {
      tokens.push_back(t);
    }
    return tokens;
  }
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) tokens.push_back(std::stoll(part));
  return tokens;
}

std::string show(const TokenInput& input) {
  if (const auto* token = std::get_if<std::int64_t>(&input)) return fmt::format("{}", *token);
  const auto& reference = std::get<TokenReference>(input);
  return fmt::format("@{}.{}", reference.step.value(), reference.row);
}

std::string show(const PlannedRows& rows) {
  std::vector<std::string> tokens;
  for (const TokenInput& input : rows.tokens) tokens.push_back(show(input));
  std::vector<std::uint32_t> blocks;
  for (const BlockId block : rows.blocks) blocks.push_back(block.value());
  std::string text =
      fmt::format("{}/{} as {}:", rows.key.request.value(), rows.key.choice, rows.sequence.value());
  if (rows.fork_from) text += fmt::format(" fork {}", rows.fork_from->value());
  if (rows.truncate_to) text += fmt::format(" truncate {}", *rows.truncate_to);
  text += fmt::format(" past {}, tokens {}, blocks {}", rows.past_tokens, fmt::join(tokens, " "),
                      fmt::join(blocks, " "));
  if (!rows.sampled_rows.empty()) {
    text += fmt::format(", sampled {}", fmt::join(rows.sampled_rows, " "));
  }
  return text;
}

class Script {
 public:
  /// Executes one line; what is to stand below it.
  std::vector<std::string> execute(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "commit") {
      Tokens sampled;
      for (std::int64_t token = 0; words >> token;) sampled.push_back(token);
      return commit(sampled);
    }
    std::vector<std::string> plain;
    std::map<std::string, std::string> named;
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        plain.push_back(word);
      } else {
        named[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    if (verb == "scheduler") return make(named);
    if (verb == "submit") return submit(plain.at(0), named);
    if (verb == "plan") return plan();
    if (verb == "cancel") return show(scheduler_->cancel(RequestId(std::stoull(plain.at(0)))));
    if (verb == "rollback") return rollback();
    return {"unknown verb " + verb};
  }

  void check() const {
    if (scheduler_ == nullptr) return;
    const Status status = scheduler_->check();
    ASSERT_TRUE(status) << status.error().message();
  }

 private:
  static std::vector<std::string> show(const Status& status) {
    if (status) return {};
    return {fmt::format("{}: {}", to_string(status.error().code()), status.error().message())};
  }

  std::vector<std::string> make(std::map<std::string, std::string>& named) {
    const auto number = [&](const std::string& name, std::uint32_t otherwise) {
      return named.contains(name) ? static_cast<std::uint32_t>(std::stoul(named[name])) : otherwise;
    };
    SchedulerOptions options;
    options.kv_blocks = number("kv_blocks", 16);
    options.block_tokens = number("block_tokens", 4);
    options.context_tokens = number("context", 64);
    options.max_running = number("running", 4);
    options.max_waiting = number("waiting", 8);
    scheduler_ = std::make_unique<Scheduler>(options);
    scheduler_->set_pipeline(
        {number("groups", 1), number("in_flight", 2), number("step_tokens", 16)});
    return {};
  }

  std::vector<std::string> submit(const std::string& id,
                                  std::map<std::string, std::string>& named) {
    Request request;
    request.id = RequestId(std::stoull(id));
    request.prompt = parse_tokens(named["prompt"]);
    request.max_tokens = static_cast<std::uint32_t>(std::stoul(named["max"]));
    if (named.contains("choices")) {
      request.choices = static_cast<std::uint32_t>(std::stoul(named["choices"]));
    }
    if (named.contains("priority")) request.priority = std::stoi(named["priority"]);
    if (named.contains("end")) request.end_tokens = parse_tokens(named["end"]);
    request.arrival = TimePoint(std::chrono::seconds(++submitted_));
    return show(scheduler_->submit(request));
  }

  std::vector<std::string> plan() {
    const auto step = scheduler_->plan(TimePoint(std::chrono::seconds(100)));
    if (!step) return {"none"};
    sent_.push_back(step->id);
    std::vector<std::string> lines = {fmt::format("step {}", step->id.value())};
    for (const kv::BlockCopy& copy : step->copies) {
      lines.push_back(fmt::format("  copy {} to {}", copy.from.value(), copy.to.value()));
    }
    for (const PlannedRows& rows : step->sequences) lines.push_back("  " + sched::show(rows));
    for (const SequenceId freed : step->freed) {
      lines.push_back(fmt::format("  free {}", freed.value()));
    }
    return lines;
  }

  std::vector<std::string> commit(const Tokens& sampled) {
    if (sent_.empty()) return {"nothing is in flight"};
    const auto all = scheduler_->commit(sent_.front(), sampled);
    if (!all) return {all.error().message()};
    sent_.pop_front();
    std::vector<std::string> lines;
    for (const Progress& progress : *all) {
      lines.push_back(fmt::format("{}/{} + {}{}", progress.key.request.value(), progress.key.choice,
                                  fmt::join(progress.tokens, " "),
                                  !progress.is_finished                      ? ""
                                  : progress.reason == FinishReason::kLength ? ", full"
                                                                             : ", ended"));
    }
    return lines;
  }

  std::vector<std::string> rollback() {
    const Status status = scheduler_->rollback(sent_.front());
    sent_.clear();
    return show(status);
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::deque<StepId> sent_;
  int submitted_ = 0;
};

std::string replay(const std::filesystem::path& file, std::string& now) {
  std::ifstream stream(file);
  std::string before;
  Script script;
  for (std::string line; std::getline(stream, line);) {
    before += line + "\n";
    if (line.starts_with("> ")) continue;
    now += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    for (const std::string& answer : script.execute(line)) now += "> " + answer + "\n";
    script.check();
  }
  return before;
}

TEST(GoldenTest, TranscriptsAreAsBefore) {
  const std::filesystem::path folder =
      std::filesystem::path(PACELINE_SOURCE_DIR) / "src/sched/golden";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string now;
    const std::string before = replay(entry.path(), now);
    EXPECT_TRUE(before == now) << entry.path() << " would now be:\n" << now;
    ++files;
  }
  EXPECT_GE(files, 2);
}

}  // namespace
}  // namespace paceline::sched
