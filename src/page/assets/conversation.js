// What was said, for this tab alone: it is gone with the tab, and no server keeps it.

const STORED = "paceline.conversation";
const MOST_CHARACTERS = 2_000_000;

/** Messages are {role, content, reasoning?, facts?, problem?}. */
export class Conversation {
  constructor() {
    this.messages = [];
    try {
      const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "[]");
      if (Array.isArray(stored)) this.messages = stored.filter((message) => typeof message?.content === "string");
    } catch {
      // Something else wrote there: begin anew.
    }
  }

  add(message) {
    this.messages.push(message);
    return message;
  }

  /** Removes `message` and all that follow it. */
  cutBefore(message) {
    const at = this.messages.indexOf(message);
    if (at >= 0) this.messages.length = at;
    this.save();
  }

  clear() {
    this.messages = [];
    this.save();
  }

  save() {
    const text = JSON.stringify(this.messages);
    try {
      if (text.length <= MOST_CHARACTERS) sessionStorage.setItem(STORED, text);
    } catch {
      // The browser's room is full: the conversation lives on in memory.
    }
  }

  /** As the API takes them: what a model thought is not told to it again. */
  asked(systemPrompt) {
    const system = systemPrompt.trim() ? [{role: "system", content: systemPrompt}] : [];
    const said = this.messages.filter((message) => !(message.role === "assistant" && message.content === ""));
    return [...system, ...said.map(({role, content}) => ({role, content}))];
  }
}
