// The chat: a conversation, what is being answered, and the composer.
import {ApiError, streamChat} from "./api.js";
import {Conversation} from "./conversation.js";
import {byId, copyText, h, iconButton, setText} from "./dom.js";
import {count, milliseconds, plural, rate} from "./format.js";
import {renderMarkdown} from "./markdown.js";
import {Settings} from "./settings.js";

/** How an answer went: what the chain can do is seen at a glance. */
function factsText(facts) {
  const parts = [plural(facts.tokens, "token")];
  if (facts.tokensPerSecond) parts.push(`${rate(facts.tokensPerSecond)} tokens/s`);
  if (facts.firstMs) parts.push(`first after ${milliseconds(facts.firstMs)}`);
  if (facts.end === "length") parts.push("stopped at the limit of tokens");
  if (facts.end === "stopped") parts.push("stopped by you");
  return parts.join(" · ");
}

/** One message on the page; an answer's grows. */
class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.text = h("div", {class: "text"});
    const isUser = message.role === "user";
    this.element = h("article", {class: `message is-${message.role}`, "aria-label": isUser ? "You" : "Answer"});
    if (isUser) {
      this.text.textContent = message.content;
      this.element.append(this.text);
      return;
    }
    this.thought = h("div", {class: "thought"});
    this.thoughtLabel = h("summary", {}, "Reasoning");
    this.thinking = h("details", {class: "thinking", hidden: true}, this.thoughtLabel, this.thought);
    this.footer = h("footer");
    this.element.append(this.thinking, this.text, this.footer);
    this.show(false);
  }

  /** As it is now; several changes of a moment are shown together. */
  show(isLive) {
    const {content, reasoning} = this.message;
    this.element.classList.toggle("is-live", isLive);
    this.element.classList.toggle("is-waiting", isLive && !content && !reasoning);
    this.thinking.hidden = !reasoning;
    if (reasoning) {
      setText(this.thoughtLabel, isLive && !content ? "Reasoning …" : "Reasoning");
      setText(this.thought, reasoning);
    }
    renderMarkdown(this.text, content);
    if (isLive) this.footer.replaceChildren();
    else this.showFooter();
  }

  showFooter() {
    const {facts, problem, content} = this.message;
    const copy = iconButton("copy", "Copy answer", () => copyText(content, copy));
    this.footer.replaceChildren(
      ...(problem ? [h("p", {class: "problem", role: "alert"}, problem)] : []),
      h("div", {class: "tools"},
        content ? copy : null,
        iconButton("again", "Answer again", () => this.actions.again(this.message), {class: "icon-button again"}),
        facts ? h("span", {class: "facts"}, factsText(facts)) : null));
  }
}

/** What is measured of an answer by who reads it. */
class AnswerMeter {
  constructor() {
    this.begin = performance.now();
    this.first = null;
    this.last = null;
    this.tokens = 0;
  }

  see(chunk) {
    if (chunk.usage) this.tokens = chunk.usage.completion_tokens;
    const delta = chunk.choices?.[0]?.delta;
    if (!delta?.content && !delta?.reasoning_content) return;
    this.last = performance.now();
    this.first ??= this.last;
    this.chunks = (this.chunks ?? 0) + 1;
  }

  facts(end) {
    const tokens = this.tokens || this.chunks || 0;
    const seconds = ((this.last ?? 0) - (this.first ?? 0)) / 1000;
    return {tokens, end, firstMs: this.first === null ? null : this.first - this.begin,
            tokensPerSecond: tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null};
  }
}

export class Chat {
  constructor() {
    this.conversation = new Conversation();
    this.settings = new Settings();
    this.thread = byId("thread");
    this.scroller = byId("chat-scroll");
    this.input = byId("composer-input");
    this.button = byId("composer-send");
    this.model = byId("model-select");
    this.abort = null;
    this.models = [];
    this.listen();
    this.showAll();
  }

  listen() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.abort) this.stop();
      else this.send();
    });
    this.input.addEventListener("input", () => this.fitInput());
    this.input.addEventListener("keydown", (event) => {
      // While a word is being composed (Japanese, say) Enter ends the word.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.abort) this.send();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.abort && !document.querySelector("dialog[open]")) this.stop();
    });
    this.scroller.addEventListener("scroll", () => this.showJump(), {passive: true});
    byId("jump").onclick = () => this.scrollToEnd(true);
    byId("settings-open").onclick = () => this.settings.open();
    byId("chat-new").onclick = () => this.restart();
  }

  /** Of GET /fleet; those that can be asked. */
  showModels(models) {
    const ready = models.filter((model) => model.state === "ready");
    const names = ready.flatMap((model) => model.names);
    this.models = models;
    if (names.join("\n") !== [...this.model.options].map((option) => option.value).join("\n")) {
      const chosen = this.model.value;
      this.model.replaceChildren(...names.map((name) => h("option", {value: name}, name)));
      if (names.includes(chosen)) this.model.value = chosen;
    }
    // One that is alone needs no choice.
    byId("model-choice").classList.toggle("is-single", names.length < 2);
    this.showWelcome();
    this.showButton();
  }

  showWelcome() {
    const name = this.model.value;
    const model = this.models.find((one) => one.names.includes(name));
    let text = "The model is being loaded …";
    if (model) {
      const machines = new Set(model.stages.map((stage) => stage.worker)).size;
      text = `${name} · ${plural(model.stages.length, "stage")} on ${plural(machines, "machine")} · ` +
        `${count(model.context_tokens)} tokens of context`;
      if (!model.can_chat) text = `${name} has no chat template: it completes text, by /v1/completions.`;
    } else if (this.models.some((one) => one.state === "failed")) {
      text = "The chain has failed. The server's log says why.";
    }
    setText(byId("welcome-model"), text);
  }

  showAll() {
    this.thread.replaceChildren(...this.conversation.messages.map((message) => this.view(message).element));
    this.showState();
    this.scrollToEnd(false);
  }

  view(message) {
    return new MessageView(message, {again: (answer) => this.again(answer)});
  }

  showState() {
    const isEmpty = this.conversation.messages.length === 0;
    byId("chat-view").classList.toggle("is-empty", isEmpty);
    byId("welcome").hidden = !isEmpty;
    byId("chat-new").hidden = isEmpty;
    // What can be answered again is the last answer.
    for (const button of this.thread.querySelectorAll(".again")) {
      button.hidden = button.closest("article") !== this.thread.lastElementChild || this.abort !== null;
    }
    this.showButton();
  }

  showButton() {
    const isBusy = this.abort !== null;
    this.button.classList.toggle("is-stop", isBusy);
    this.button.setAttribute("aria-label", isBusy ? "Stop" : "Send");
    this.button.title = isBusy ? "Stop (Esc)" : "Send (Enter)";
    this.button.disabled = !isBusy && (this.input.value.trim() === "" || this.model.value === "");
  }

  fitInput() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, 240)}px`;
    this.showButton();
  }

  send() {
    const text = this.input.value.trim();
    if (text === "" || this.model.value === "") return;
    this.input.value = "";
    this.fitInput();
    const message = this.conversation.add({role: "user", content: text});
    this.thread.append(this.view(message).element);
    this.answer();
  }

  again(message) {
    this.conversation.cutBefore(message);
    this.thread.lastElementChild.remove();
    this.input.focus();
    this.answer();
  }

  restart() {
    this.stop();
    this.conversation.clear();
    this.showAll();
    this.input.focus();
  }

  stop() {
    this.abort?.abort();
  }

  async answer() {
    const asked = this.conversation.asked(this.settings.systemPrompt);
    const message = this.conversation.add({role: "assistant", content: "", reasoning: ""});
    const view = this.view(message);
    const abort = this.abort = new AbortController();
    this.live = view;
    this.thread.append(view.element);
    this.thread.setAttribute("aria-busy", "true");
    this.showState();
    view.show(true);
    this.scrollToEnd(true);
    const meter = new AnswerMeter();
    let end = "stop";
    try {
      await streamChat({model: this.model.value, messages: asked, ...this.settings.fields()}, {
        signal: abort.signal,
        onChunk: (chunk) => {
          meter.see(chunk);
          end = chunk.choices?.[0]?.finish_reason ?? end;
          this.take(view, chunk);
        },
      });
    } catch (error) {
      end = error.name === "AbortError" ? "stopped" : "error";
      if (end === "error") message.problem = error instanceof ApiError ? error.message : String(error);
    }
    message.facts = meter.facts(end);
    if (message.facts.tokens === 0) delete message.facts;
    this.finish(view, abort);
  }

  take(view, chunk) {
    const delta = chunk.choices?.[0]?.delta ?? {};
    view.message.content += delta.content ?? "";
    view.message.reasoning += delta.reasoning_content ?? "";
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      const follows = this.isAtEnd();
      if (this.live === view) view.show(true);
      if (follows) this.scrollToEnd(false);
    });
  }

  finish(view, abort) {
    // A conversation that was begun anew meanwhile has nothing to do with it.
    if (this.abort === abort) this.abort = null;
    if (this.live === view) this.live = null;
    const follows = this.isAtEnd();
    view.show(false);
    this.thread.setAttribute("aria-busy", "false");
    if (this.conversation.messages.includes(view.message)) this.conversation.save();
    this.showState();
    if (follows) this.scrollToEnd(false);
  }

  isAtEnd() {
    const {scrollTop, clientHeight, scrollHeight} = this.scroller;
    return scrollHeight - scrollTop - clientHeight < 60;
  }

  scrollToEnd(isSmooth) {
    const behavior = isSmooth && !matchMedia("(prefers-reduced-motion: reduce)").matches ? "smooth" : "instant";
    this.scroller.scrollTo({top: this.scroller.scrollHeight, behavior});
    this.showJump();
  }

  showJump() {
    byId("jump").hidden = this.isAtEnd();
  }
}
