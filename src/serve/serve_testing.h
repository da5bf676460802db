// For tests of this folder: a client that remembers what it got, and a model that says what it is
// told.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/fake_chain_testing.h"
#include "http/local_exchange.h"
#include "serve/handlers.h"
#include "text/test_vocabulary.h"

namespace paceline::serve {

using nlohmann::ordered_json;

/// Waits for the end of what it asked.
class FakeExchange final : public http::LocalExchange {
 public:
  explicit FakeExchange(std::string body = "") : LocalExchange(http::Request()) {
    request_.body = std::move(body);
  }
  void respond(http::Response response) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(has_ended_) << "answered twice";
    head_ = std::move(response);
    text_ = head_.body;
    end_locked();
  }
  void begin_stream(http::Response head) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(is_stream_) << "begun twice";
    is_stream_ = true;
    head_ = std::move(head);
  }
  bool write(std::string_view bytes) override {
    {
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(is_stream_);
      EXPECT_FALSE(has_ended_) << "written after the end: " << bytes;
      text_ += bytes;
      changed_.notify_all();
      if (text_.size() < goes_after_) return true;
    }
    LocalExchange::go();  // as a server may: out of a write
    return false;
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    end_locked();
  }
  void abort() override {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    end_locked();
  }

  using LocalExchange::request_;
  std::size_t goes_after_ = SIZE_MAX;  ///< bytes

  /// The client closes its connection.
  void go() { ASSERT_TRUE(LocalExchange::go()) << "nobody wants to know"; }
  FakeExchange& wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [this] { return has_ended_; }));
    return *this;
  }
  void wait_for_text(std::string_view text) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      return text_.find(text) != std::string::npos;
    })) << text_;
  }

  int status() const { return head_.status; }
  const http::Response& head() const { return head_; }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  bool is_aborted() const { return is_aborted_; }
  bool is_stream() const { return is_stream_; }
  ordered_json json() { return ordered_json::parse(text()); }
  /// Of a stream; "[DONE]" as a string, comments left out.
  std::vector<ordered_json> events() {
    std::vector<ordered_json> events;
    std::string rest = text();
    for (std::size_t end = rest.find("\n\n"); end != std::string::npos; end = rest.find("\n\n")) {
      const std::string event = rest.substr(0, end);
      rest.erase(0, end + 2);
      if (event.starts_with(':')) continue;
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      EXPECT_EQ(event.find('\n'), std::string::npos) << event;
      const std::string data = event.substr(6);
      events.push_back(data == "[DONE]" ? ordered_json(data) : ordered_json::parse(data));
    }
    EXPECT_EQ(rest, "");
    return events;
  }

 private:
  void end_locked() {
    has_ended_ = true;
    forget_gone();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  http::Response head_;
  std::string text_;
  bool is_stream_ = false;
  bool is_aborted_ = false;
  bool has_ended_ = false;
};

/// Handlers over one model "test", which is a real generator over a fake chain.
class ServeTest : public testing::Test {
 protected:
  static constexpr std::int64_t kEnd = 2;
  static constexpr std::uint32_t kContext = 256;
  static constexpr const char* kTemplate =
      "{% for m in messages %}{% if m.role == 'tool' and not tools %}{{ raise_exception('no "
      "tools') }}"
      "{% endif %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor "
      "%}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
      "{% if think %}{{ '<think>\n' }}{% endif %}";

  void SetUp() override { start(64); }
  void TearDown() override { stop(); }

  void start(std::uint32_t max_waiting) {
    stop();
    coordinator::BatchOptions options;
    options.end_tokens = {kEnd};
    options.scheduler.context_tokens = kContext;
    options.scheduler.kv_blocks = 512;
    options.scheduler.block_tokens = coordinator::FakeChain::kBlockTokens;
    options.scheduler.max_waiting = max_waiting;
    options.scheduler.max_choices = 1024;
    options.speculation = coordinator::Speculation::kOff;
    options.vocabulary_size = static_cast<std::uint64_t>(tokenizer_.vocabulary_size());
    options.mean_width = mean_width_;
    options.why_no_means = why_no_means_;
    chain_ = std::make_unique<coordinator::FakeChain>();
    chain_->model = [this](const text::Ids& tokens) { return next_token(tokens); };
    generator_ =
        std::make_unique<coordinator::BatchGenerator>(*chain_, 1, &tokenizer_, clock_, options);
    ServedModel::Parts parts;
    parts.facts = {1700000000, kContext, options.vocabulary_size, {}, {kEnd}, 512};
    parts.generator = generator_.get();
    parts.tokenizer = &tokenizer_;
    parts.chat = ChatFormat{text::ChatTemplate::parse(kTemplate).value(), chat_source_, "", ""};
    metrics_ = std::make_unique<obs::Metrics>();
    parts.metrics = &metrics_->model("test");
    parts.stages = [this] { return stages_; };
    registry_ = std::make_unique<ModelRegistry>();
    registry_->set_ready("test", std::make_shared<ServedModel>(std::move(parts)));
    handlers_ = std::make_unique<Handlers>(
        *registry_, clock_, HandlerOptions{ping_interval_, metrics_.get(), nullptr, &log_});
    say("Hello there.");
  }
  void stop() {
    if (chain_) chain_->hold(false);
    handlers_.reset();
    registry_.reset();
    generator_.reset();
    chain_.reset();
  }

  text::Ids ids(const std::string& text) const { return tokenizer_.encode(text, false).value(); }
  /// Whatever the prompt: the model says `text`, then its end token. Told apart from the prompt by
  /// its length, which `chat()` and `complete()` look up.
  void say(const std::string& text) { answer_ = ids(text); }
  void script(std::size_t prompt_tokens) {
    const std::lock_guard lock(script_mutex_);
    scripted_ = answer_;
    scripted_after_ = prompt_tokens;
  }
  std::int64_t next_token(const text::Ids& tokens) {
    const std::lock_guard lock(script_mutex_);
    const std::size_t at = tokens.size() - scripted_after_;
    return at < scripted_.size() ? scripted_[at] : kEnd;
  }
  std::string hello(const std::string& rest = "") const {
    return R"({"messages": [{"role": "user", "content": "Hi"}], "temperature": 0)" +
           (rest.empty() ? "" : ", " + rest) + "}";
  }
  /// Of the messages in hello().
  std::size_t hello_tokens() const {
    return ids("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n").size();
  }

  std::shared_ptr<FakeExchange> ask_chat(const std::string& body) {
    script(hello_tokens());
    auto exchange = std::make_shared<FakeExchange>(body);
    handlers_->chat(exchange);
    return exchange;
  }
  /// With the prompt "Hi" or as many tokens.
  std::shared_ptr<FakeExchange> ask_completion(const std::string& body) {
    script(ids("Hi").size());
    auto exchange = std::make_shared<FakeExchange>(body);
    handlers_->complete(exchange);
    return exchange;
  }
  void expect_error(const std::shared_ptr<FakeExchange>& exchange, int status,
                    const std::string& param, const std::string& code) {
    exchange->wait();
    EXPECT_EQ(exchange->status(), status) << exchange->text();
    const auto error = exchange->json()["error"];
    EXPECT_EQ(error["param"], param.empty() ? ordered_json() : ordered_json(param)) << error;
    EXPECT_EQ(error["code"], code.empty() ? ordered_json() : ordered_json(code)) << error;
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string()) << error;
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
  const SteadyClock clock_;
  std::string chat_source_ = "<tool_call>";
  std::uint64_t mean_width_ = coordinator::FakeChain::kMeanWidth;
  std::string why_no_means_;
  Duration ping_interval_ = std::chrono::seconds(15);
  std::unique_ptr<coordinator::FakeChain> chain_;
  std::unique_ptr<coordinator::BatchGenerator> generator_;
  std::unique_ptr<obs::Metrics> metrics_;
  obs::RequestLog log_;
  std::vector<StageView> stages_;  ///< of the model
  std::unique_ptr<ModelRegistry> registry_;
  std::unique_ptr<Handlers> handlers_;
  text::Ids answer_;
  std::mutex script_mutex_;  ///< the generator's thread asks the model
  text::Ids scripted_;
  std::size_t scripted_after_ = 0;
};

}  // namespace paceline::serve
