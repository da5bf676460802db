// What the workers between see of a private chain: every byte that comes to them is looked through.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "coordinator/answer_waiter.h"
#include "coordinator/chain.h"
#include "spec/draft_model.h"
#include "wire/codec.h"
#include "worker/worker_testing.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;
using worker::fake_answer;
using worker::kFakeBlockTokens;
using worker::kFakeLayers;

using Ids = std::vector<std::int64_t>;

/// Stands before a worker, passes everything on, and keeps what comes to it.
class Tap {
 public:
  Tap(net::Transport& transport, const std::string& worker)
      : transport_(transport), worker_(net::parse_endpoint(worker).value()) {
    auto listener =
        transport.listen({"127.0.0.1", 0}, [this](const std::shared_ptr<net::Connection>& front) {
          auto ends = std::make_shared<Ends>();
          ends->log = log_;
          ends->front = front;
          transport_.dial(worker_, net::soon(), std::make_shared<Back>(ends), [ends](auto back) {
            ASSERT_TRUE(back) << back.error().message();
            ends->back = *back;
            for (wire::Frame& frame : ends->waiting) EXPECT_TRUE((*back)->send(std::move(frame)));
          });
          return std::make_shared<Front>(ends);
        });
    EXPECT_TRUE(listener);
    listener_ = *std::move(listener);
  }
  std::string address() const { return listener_->endpoint().to_string(); }
  std::vector<wire::Frame> frames() const {
    const std::lock_guard lock(log_->mutex);
    return log_->frames;
  }

 private:
  /// Connections may live longer than the tap.
  struct Log {
    std::mutex mutex;
    std::vector<wire::Frame> frames;
  };
  /// Of one connection; the network thread's.
  struct Ends {
    std::shared_ptr<Log> log;
    std::shared_ptr<net::Connection> front;
    std::shared_ptr<net::Connection> back;
    std::vector<wire::Frame> waiting;
  };
  class Front final : public net::ConnectionHandler {
   public:
    explicit Front(std::shared_ptr<Ends> ends) : ends_(std::move(ends)) {}
    void on_frame(wire::Frame frame) override {
      {
        const std::lock_guard lock(ends_->log->mutex);
        ends_->log->frames.push_back(frame);
      }
      if (ends_->back) {
        (void)ends_->back->send(std::move(frame));
      } else {
        ends_->waiting.push_back(std::move(frame));
      }
    }
    void on_closed(const Error& reason) override {
      if (ends_->back) ends_->back->close(reason);
    }

   private:
    const std::shared_ptr<Ends> ends_;
  };
  class Back final : public net::ConnectionHandler {
   public:
    explicit Back(std::shared_ptr<Ends> ends) : ends_(std::move(ends)) {}
    void on_frame(wire::Frame frame) override { (void)ends_->front->send(std::move(frame)); }
    void on_closed(const Error& reason) override { ends_->front->close(reason); }

   private:
    const std::shared_ptr<Ends> ends_;
  };

  net::Transport& transport_;
  const net::Endpoint worker_;
  std::unique_ptr<net::Listener> listener_;
  const std::shared_ptr<Log> log_ = std::make_shared<Log>();
};

/// `ids` as bytes in one of the ways in which they could be written: `width` 1 is protobuf's.
std::vector<std::byte> bytes_of(const Ids& ids, std::size_t width) {
  std::vector<std::byte> bytes;
  for (const std::int64_t id : ids) {
    bytes.push_back(static_cast<std::byte>(id));  // below 97
    bytes.resize(bytes.size() + width - 1);
  }
  return bytes;
}

/// Whether any four of `ids` stand behind each other in the frames.
bool tells(const std::vector<wire::Frame>& frames, const Ids& ids) {
  for (const wire::Frame& frame : frames) {
    const auto bytes = wire::flatten(wire::encode(frame).value());
    for (std::size_t first = 0; first + 4 <= ids.size(); ++first) {
      const Ids part(ids.begin() + static_cast<std::ptrdiff_t>(first),
                     ids.begin() + static_cast<std::ptrdiff_t>(first) + 4);
      for (const std::size_t width : {1, 4, 8}) {
        const auto sought = bytes_of(part, width);
        if (std::search(bytes.begin(), bytes.end(), sought.begin(), sought.end()) != bytes.end()) {
          return true;
        }
      }
    }
  }
  return false;
}

/// Of what is there for choosing tokens nothing is in the step.
void expect_nothing_told(const wire::Step& step) {
  EXPECT_TRUE(step.sampled_apart);
  for (const wire::StepSequence& sequence : step.sequences) {
    EXPECT_TRUE(sequence.tokens.empty());
    EXPECT_TRUE(sequence.sampled_rows.empty());
    EXPECT_TRUE(sequence.drafts.empty());
  }
  for (const wire::SequenceSpec& spec : step.opened) {
    wire::SequenceSpec number_only;
    number_only.sequence = spec.sequence;
    EXPECT_EQ(spec, number_only);
  }
}

/// Knows some texts, and is wrong now and then all the same.
class KnowingModel final : public spec::DraftModel {
 public:
  explicit KnowingModel(std::vector<Ids> texts) : texts_(std::move(texts)) {}
  void expect(const sampling::SamplingSpec&, std::uint32_t) override {}
  void open(spec::LineId) override {}
  spec::Guess guess(spec::LineId, std::span<const std::int64_t> known,
                    std::span<const std::int64_t> assumed, const spec::GuessSize& size) override {
    Ids text(known.begin(), known.end());
    text.insert(text.end(), assumed.begin(), assumed.end());
    spec::Guess guess;
    for (const Ids& other : texts_) {
      if (other.size() < text.size() || !std::equal(text.begin(), text.end(), other.begin())) {
        continue;
      }
      const std::size_t end = std::min<std::size_t>(other.size(), text.size() + size.count);
      guess.tokens.assign(other.begin() + static_cast<std::ptrdiff_t>(text.size()),
                          other.begin() + static_cast<std::ptrdiff_t>(end));
      if (text.size() % 4 == 0 && !guess.tokens.empty()) guess.tokens.back() = 96;
      break;
    }
    return guess;
  }
  void finish(spec::LineId) override {}
  double guess_us() const override { return 1; }
  void set_listener(std::function<void()>) override {}

 private:
  const std::vector<Ids> texts_;
};

class PrivateChainTest : public testing::Test {
 protected:
  /// `between` share the layers that the worker at home does not keep; without any, home has all.
  Result<std::unique_ptr<Chain>> start(const std::vector<std::string>& between,
                                       std::uint32_t kept = 1) {
    ChainPlan plan;
    plan.package_digest = "digest";
    plan.context_tokens = 96;
    plan.kv_blocks = 64;
    plan.logical_block_tokens = kFakeBlockTokens;
    home_ = std::make_unique<Tap>(workers_.transport(), workers_.start());
    const std::string home = home_->address();
    std::uint32_t begin = between.empty() ? kFakeLayers : kept;
    plan.route = {{home, {0, begin}}};
    for (const std::string& address : between) {
      const bool is_last = address == between.back();
      const std::uint32_t end = is_last ? kFakeLayers - kept : begin + 1;
      plan.route.push_back({address, {begin, end}});
      begin = end;
    }
    if (!between.empty()) {
      plan.route.push_back({home, {begin, kFakeLayers}});
      plan.home = home;
    }
    std::vector<std::string> addresses = between;
    addresses.push_back(home);
    auto pool = WorkerPool::connect(workers_.transport(), clock_, addresses, "anna", net::soon());
    if (!pool) return fail(std::move(pool).error());
    return Chain::start(*std::move(pool), plan, clock_);
  }

  /// Requests that use all that travels with a request, two answers to each.
  static std::vector<GenerationRequest> requests() {
    GenerationRequest plain;
    plain.prompt = {83, 17, 91, 64, 29, 77, 53, 83, 17, 91, 64, 29};  // it repeats, for look-ups
    plain.max_tokens = 24;
    plain.choices = 2;
    plain.ignore_eos = true;
    GenerationRequest penalties = plain;
    penalties.prompt = {83, 17, 91, 64, 71, 33};
    penalties.sampling.temperature = 0.75;
    penalties.sampling.seed = 1234567;
    penalties.sampling.repetition_penalty = 1.5;
    penalties.sampling.frequency_penalty = 0.5;
    penalties.sampling.logprobs = 2;
    penalties.sampling.logit_bias = {{85, 2.0F}, {86, 2.0F}, {87, 2.0F}, {88, 2.0F}};
    penalties.want_logits_digests = true;
    GenerationRequest scored = penalties;
    scored.want_prompt_logprobs = true;
    return {plain, penalties, scored};
  }

  static BatchOptions options() {
    BatchOptions options;
    options.scheduler.context_tokens = 96;
    options.scheduler.kv_blocks = 64;
    options.scheduler.block_tokens = kFakeBlockTokens;
    options.pipeline.least_step_tokens = 5;
    options.pipeline.most_step_tokens = 5;
    return options;
  }

  static std::vector<Generation> answers(Chain& chain, spec::DraftModel* model = nullptr) {
    BatchOptions options = PrivateChainTest::options();
    options.speculation = Speculation::kAlways;
    options.draft_model = model;
    options.vocabulary_size = worker::kFakeVocabulary;
    const SteadyClock clock;
    BatchGenerator generator(chain, chain.plan().route.size(), nullptr, clock, options);
    const std::atomic<bool> cancelled = false;
    std::vector<std::pair<sched::RequestId, std::shared_ptr<AnswerWaiter>>> asked;
    for (const GenerationRequest& request : requests()) {
      auto waiter = std::make_shared<AnswerWaiter>(request.choices, nullptr);
      const auto id = generator.submit(request, waiter);
      EXPECT_TRUE(id) << id.error().message();
      asked.emplace_back(*id, waiter);
    }
    // One is given up in the middle.
    GenerationRequest endless = requests()[1];
    endless.max_tokens = 80;
    auto given_up = std::make_shared<AnswerWaiter>(endless.choices, nullptr);
    const auto id = generator.submit(endless, given_up);
    EXPECT_TRUE(id) << id.error().message();
    generator.cancel(*id);
    std::vector<Generation> all;
    for (const auto& [request, waiter] : asked) {
      auto given = wait_for_answers(generator, request, *waiter, cancelled);
      EXPECT_TRUE(given) << given.error().message();
      if (given) all.insert(all.end(), given->begin(), given->end());
    }
    return all;
  }

  static void expect_same(const std::vector<Generation>& answers,
                          const std::vector<Generation>& expected) {
    ASSERT_EQ(answers.size(), expected.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, expected[i].tokens) << i;
      EXPECT_EQ(answers[i].logprobs, expected[i].logprobs) << i;
      EXPECT_EQ(answers[i].top_logprobs, expected[i].top_logprobs) << i;
      EXPECT_EQ(answers[i].logits_digests, expected[i].logits_digests) << i;
      EXPECT_EQ(answers[i].prompt_logprobs, expected[i].prompt_logprobs) << i;
    }
  }

  SteadyClock clock_;
  worker::FakeWorkers workers_;
  std::unique_ptr<Tap> home_;  ///< of the chain started last
};

TEST_F(PrivateChainTest, WorkersBetweenSeeNoTokensAndTheAnswersAreTheSame) {
  auto plain = start({});
  ASSERT_TRUE(plain) << plain.error().message();
  const auto expected = answers(**plain);
  EXPECT_EQ(expected[0].tokens, fake_answer(requests()[0].prompt, kFakeLayers, 24));

  Tap first(workers_.transport(), workers_.start());
  Tap second(workers_.transport(), workers_.start());
  auto chain = start({first.address(), second.address()});
  ASSERT_TRUE(chain) << chain.error().message();
  std::vector<Ids> texts;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    texts.push_back(requests()[i / 2].prompt);
    texts.back().insert(texts.back().end(), expected[i].tokens.begin(), expected[i].tokens.end());
  }
  KnowingModel model(texts);
  expect_same(answers(**chain, &model), expected);

  std::vector<Ids> told;
  for (const auto& request : requests()) told.push_back(request.prompt);
  for (const auto& answer : expected) told.push_back(answer.tokens);
  for (const Tap* tap : {&first, &second}) {
    const auto frames = tap->frames();
    EXPECT_GT(frames.size(), 30U);
    for (const Ids& ids : told) EXPECT_FALSE(tells(frames, ids));
    std::size_t steps = 0;
    for (const wire::Frame& frame : frames) {
      EXPECT_FALSE(std::holds_alternative<wire::StepSampling>(frame.message));
      if (const auto* assigned = std::get_if<wire::AssignStage>(&frame.message)) {
        EXPECT_EQ(assigned->route.front().address, "");
        EXPECT_EQ(assigned->route.back().address, "");
      }
      const auto* step = std::get_if<wire::Step>(&frame.message);
      if (step == nullptr) continue;
      ++steps;
      expect_nothing_told(*step);
    }
    EXPECT_GT(steps, 20U);
  }

  // The search finds what it is for, and all of it was in use: at home.
  const auto at_home = home_->frames();
  EXPECT_TRUE(tells(at_home, requests()[0].prompt));
  EXPECT_TRUE(tells(at_home, expected[0].tokens));
  std::size_t drafts = 0;
  std::size_t history = 0;
  for (const wire::Frame& frame : at_home) {
    const auto* sampling = std::get_if<wire::StepSampling>(&frame.message);
    if (sampling == nullptr) continue;
    for (const auto& sequence : sampling->sequences) drafts += sequence.drafts.size();
    for (const auto& spec : sampling->opened) history += spec.history.size();
  }
  EXPECT_GT(drafts, 20U);
  EXPECT_GT(history, requests()[1].prompt.size());
}

TEST_F(PrivateChainTest, AMeanIsMadeAtHome) {
  Tap between(workers_.transport(), workers_.start());
  auto chain = start({between.address()});
  ASSERT_TRUE(chain) << chain.error().message();
  BatchOptions options = PrivateChainTest::options();
  options.mean_width = (*chain)->mean_width();
  options.why_no_means = (*chain)->why_no_means();
  BatchGenerator generator(**chain, 3, nullptr, clock_, options);
  GenerationRequest request = requests()[0];
  request.want_mean = true;
  const std::atomic<bool> cancelled = false;
  const auto given = generate(generator, request, nullptr, cancelled);
  ASSERT_TRUE(given) << given.error().message();
  EXPECT_EQ(given->mean, worker::fake_mean(request.prompt, kFakeLayers));
}

/// Also where nothing is private the tokens' history and parameters do not travel along the chain.
TEST_F(PrivateChainTest, StagesBetweenAreToldNothingInAnyChain) {
  Tap tap(workers_.transport(), workers_.start());
  const std::string first = workers_.start();
  ChainPlan plan;
  plan.package_digest = "digest";
  plan.context_tokens = 96;
  plan.kv_blocks = 64;
  plan.logical_block_tokens = kFakeBlockTokens;
  plan.route = {{first, {0, 2}}, {tap.address(), {2, 4}}, {workers_.start(), {4, kFakeLayers}}};
  std::vector<std::string> addresses;
  for (const auto& entry : plan.route) addresses.push_back(entry.address);
  auto pool = WorkerPool::connect(workers_.transport(), clock_, addresses, "anna", net::soon());
  ASSERT_TRUE(pool) << pool.error().message();
  const auto chain = Chain::start(*std::move(pool), plan, clock_);
  ASSERT_TRUE(chain) << chain.error().message();
  const auto given = answers(**chain);
  EXPECT_EQ(given[0].tokens, fake_answer(requests()[0].prompt, kFakeLayers, 24));
  for (const auto& frame : tap.frames()) {
    if (const auto* step = std::get_if<wire::Step>(&frame.message)) expect_nothing_told(*step);
  }
}

TEST_F(PrivateChainTest, AWorkerOfAnOlderVersionIsNamed) {
  net::TestServer older(workers_.transport());
  older.handler->on_frame_hook = [&](const wire::Frame& frame) {
    if (!std::holds_alternative<wire::Hello>(frame.message)) return;
    wire::Welcome welcome;
    welcome.version = 2;
    EXPECT_TRUE(older.accepted()->send({{}, welcome, {}}));
  };
  const std::string address = older.endpoint().to_string();
  const auto chain = start({address});
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(chain.error().message(),
              HasSubstr("worker " + address + ": speaks protocol version 2"));
}

TEST_F(PrivateChainTest, AFailureBetweenIsNamedWhileSamplingWaits) {
  Tap tap(workers_.transport(), workers_.start());
  workers_.prepare = [](worker::FakeEngine& engine) {
    if (engine.info().layers.begin == 1) {
      engine.failure = Error(ErrorCode::kInternal, "out of order");
    }
  };
  const auto chain = start({tap.address()});
  ASSERT_FALSE(chain);
  EXPECT_THAT(chain.error().message(), HasSubstr("out of order"));
  EXPECT_THAT(chain.error().message(), HasSubstr(tap.address()));
}

}  // namespace
}  // namespace paceline::coordinator
