#include "serve/model_reaper.h"

#include <atomic>
#include <future>

#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

TEST(ModelReaperTest, ModelsEndOnAThreadOfItsOwn) {
  std::promise<std::thread::id> ended;
  {
    ModelReaper reaper;
    ServedModel::Parts parts;
    parts.owner = std::shared_ptr<void>(
        nullptr, [&ended](void*) { ended.set_value(std::this_thread::get_id()); });
    auto model = reaper.adopt(std::make_unique<ServedModel>(std::move(parts)));
    model.reset();
    EXPECT_NE(ended.get_future().get(), std::this_thread::get_id());
  }
}

class ModelReaperOfServeTest : public ServeTest {};

/// A request under way is the last to hold its model, whose end its own thread could not wait for.
TEST_F(ModelReaperOfServeTest, TheGeneratorsThreadMayBeTheLastToLetGo) {
  auto reaper = std::make_unique<ModelReaper>();
  std::atomic<bool> has_ended = false;
  ServedModel::Parts parts;
  parts.facts = {0,  kContext, static_cast<std::uint64_t>(tokenizer_.vocabulary_size()),
                 {}, {kEnd},   0};
  parts.generator = generator_.get();
  parts.tokenizer = &tokenizer_;
  parts.owner = std::shared_ptr<void>(generator_.release(), [&has_ended](void* generator) {
    delete static_cast<coordinator::BatchGenerator*>(generator);
    has_ended = true;
  });
  registry_ = std::make_unique<ModelRegistry>();
  handlers_ = std::make_unique<Handlers>(*registry_, clock_, HandlerOptions{});
  registry_->set_ready("test", reaper->adopt(std::make_unique<ServedModel>(std::move(parts))));
  chain_->hold(true);
  const auto exchange = ask_completion(R"({"prompt": "Hi"})");
  registry_->remove("test");
  EXPECT_FALSE(has_ended);
  chain_->hold(false);
  EXPECT_EQ(exchange->wait().status(), 200);
  reaper.reset();
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace paceline::serve
