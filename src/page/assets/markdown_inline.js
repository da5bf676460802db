// Markdown inside a line: emphasis, code, links. The text is a model's, so it is nobody's to trust:
// elements are made one by one, links lead to http, https and mailto alone, and images are links.
import {h} from "./dom.js";

const DEEPEST = 6;
const LONGEST_LINK = 2000;
const ESCAPABLE = /[\\`*_{}[\]()#+\-.!~|<>]/;
const WORD = /[\p{L}\p{N}]/u;
const URL_START = /^https?:\/\/[^\s<>"'`]+/i;
const PAIRS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

function safeUrl(text) {
  let url;
  try {
    url = new URL(text.trim());
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

function link(url, children) {
  return h("a", {href: url, target: "_blank", rel: "noopener noreferrer nofollow"}, ...children);
}

/** One run over a text. What was looked for in vain once is not looked for again, so that many
 * openings without an end take no more time than few. */
class Scanner {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.plain = "";
    this.nodes = [];
    this.missing = new Set();
  }

  run() {
    while (this.at < this.text.length) {
      if (!this.special()) this.plain += this.text[this.at++];
    }
    this.flush();
    return this.nodes;
  }

  flush() {
    if (this.plain) this.nodes.push(document.createTextNode(this.plain));
    this.plain = "";
  }

  push(node, end) {
    this.flush();
    this.nodes.push(node);
    this.at = end;
    return true;
  }

  find(what, from) {
    if (this.missing.has(what)) return -1;
    const found = this.text.indexOf(what, from);
    if (found < 0) this.missing.add(what);
    return found;
  }

  special() {
    switch (this.text[this.at]) {
      case "\n": return this.push(h("br"), this.at + 1);
      case "\\": return this.escape();
      case "`": return this.code();
      case "!": return this.text[this.at + 1] === "[" && this.bracket(this.at + 1);
      case "[": return this.bracket(this.at);
      case "<": return this.angle();
      case "h": case "H": return this.bareUrl();
      case "*": case "_": case "~": return this.emphasis();
      default: return false;
    }
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !ESCAPABLE.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  code() {
    let run = this.at;
    while (this.text[run] === "`") ++run;
    const fence = this.text.slice(this.at, run);
    const end = this.find(fence, run);
    if (end < 0) {
      this.plain += fence;
      this.at = run;
      return true;
    }
    return this.push(h("code", {}, this.text.slice(run, end).trim()), end + fence.length);
  }

  inner(text) {
    return this.depth >= DEEPEST ? [text] : new Scanner(text, this.depth + 1).run();
  }

  /** [text](address), from the bracket at `open`. */
  bracket(open) {
    const middle = this.find("](", open);
    if (middle < 0) return false;
    const end = this.find(")", middle);
    if (end < 0 || end - open > LONGEST_LINK) return false;
    const url = safeUrl(this.text.slice(middle + 2, end).replace(/\s+".*"$/, ""));
    if (!url) return false;
    const text = this.text.slice(open + 1, middle) || url;
    return this.push(link(url, this.inner(text)), end + 1);
  }

  angle() {
    const end = this.find(">", this.at);
    const url = end < 0 || end - this.at > LONGEST_LINK ? null : safeUrl(this.text.slice(this.at + 1, end));
    return url ? this.push(link(url, [this.text.slice(this.at + 1, end)]), end + 1) : false;
  }

  bareUrl() {
    if (this.at > 0 && WORD.test(this.text[this.at - 1])) return false;
    const match = URL_START.exec(this.text.slice(this.at, this.at + LONGEST_LINK));
    const shown = match?.[0].replace(/[.,;:!?)\]*_~]+$/, "");
    const url = shown && safeUrl(shown);
    return url ? this.push(link(url, [shown]), this.at + shown.length) : false;
  }

  emphasis() {
    for (const [mark, tag] of PAIRS) {
      if (!this.text.startsWith(mark, this.at)) continue;
      const begin = this.at + mark.length;
      const end = this.closing(mark, begin);
      if (end > begin) return this.push(h(tag, {}, ...this.inner(this.text.slice(begin, end))), end + mark.length);
    }
    return false;
  }

  closing(mark, begin) {
    const before = this.text[this.at - 1] ?? " ";
    if (/\s/.test(this.text[begin] ?? " ")) return -1;
    if (mark.includes("_") && WORD.test(before)) return -1;  // snake_case is a name
    for (let end = this.find(mark, begin + 1); end >= 0; end = this.find(mark, end + 1)) {
      const isAfterText = !/\s/.test(this.text[end - 1]);
      const isInWord = mark.includes("_") && WORD.test(this.text[end + mark.length] ?? " ");
      const isLonger = mark.length === 1 && (this.text[end + 1] === mark || this.text[end - 1] === mark);
      if (isAfterText && !isInWord && !isLonger) return end;
    }
    this.missing.add(mark);
    return -1;
  }
}

/** Nodes for a text without block structure. */
export function inlineNodes(text) {
  return new Scanner(text, 0).run();
}
