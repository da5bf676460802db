// Markdown as models write it, as elements: paragraphs, headings, lists, quotes, tables, code.
//
// A text that grows is shown again and again, so what has not changed keeps its elements: the reader
// can mark and copy while the rest comes.
import {copyText, h, iconButton} from "./dom.js";
import {inlineNodes} from "./markdown_inline.js";

const DEEPEST = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.+)$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])([ \t]+|$)(.*)$/;
const TABLE_RULE = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function isBlank(line) {
  return line.trim() === "";
}

function beginsTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") &&
    lines[at + 1].length < 1000 && TABLE_RULE.test(lines[at + 1]);
}

function beginsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || line.startsWith(">") ||
    ITEM.test(line) || beginsTable(lines, at);
}

/** Each takes lines from `at` on, and gives a block {kind, ...} and where the next one begins. */
function takeCode(lines, at) {
  const [, fence, language] = FENCE.exec(lines[at]);
  const isEnd = (line) => line.trim().startsWith(fence) && isBlank(line.trim().replaceAll(fence[0], ""));
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end])) ++end;
  return [{kind: "code", language, text: lines.slice(at + 1, end).join("\n")}, Math.min(end + 1, lines.length)];
}

function takeQuote(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].startsWith(">")) ++end;
  return [{kind: "quote", lines: lines.slice(at, end).map((line) => line.replace(/^> ?/, ""))}, end];
}

function takeTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) ++end;
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const rows = [lines[at], ...lines.slice(at + 2, end)].map(cells);
  return [{kind: "table", head: rows[0], rows: rows.slice(1)}, end];
}

function takeList(lines, at) {
  const first = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const match = ITEM.exec(lines[end]);
    const isMine = match && match[1].length <= first[1].length + 1 && /\d/.test(match[2]) === isOrdered;
    if (!isMine) break;
    const [item, next] = takeItem(lines, end, match);
    items.push(item);
    end = next;
  }
  return [{kind: "list", isOrdered, start: parseInt(first[2], 10), items}, end];
}

/** An item's lines: those that are indented, and what follows without a gap. */
function takeItem(lines, at, match) {
  const indent = match[1].length + match[2].length + 1;
  const taken = [match[4]];
  let end = at + 1;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    const own = line.length - line.trimStart().length;
    if (isBlank(line)) {
      const next = lines[end + 1];
      const isGap = next === undefined || isBlank(next) || next.length - next.trimStart().length < Math.min(indent, 2);
      if (isGap) {
        // A gap between items does not end the list.
        if (next !== undefined && ITEM.test(next)) ++end;
        break;
      }
      taken.push("");
    } else if (own > match[1].length + 1) {
      taken.push(line.slice(Math.min(own, indent)));
    } else if (!beginsBlock(lines, end)) {
      taken.push(line.trimStart());
    } else {
      break;
    }
  }
  return [taken, end];
}

function takeParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !beginsBlock(lines, end)) ++end;
  return [{kind: "paragraph", text: lines.slice(at, end).map((line) => line.trim()).join("\n")}, end];
}

/** A heading may end with the signs that it begins with. */
function withoutEnd(text) {
  const whole = text.trimEnd();
  let end = whole.length;
  while (whole[end - 1] === "#") --end;
  return end === 0 || whole[end - 1] === " " ? whole.slice(0, end).trimEnd() : whole;
}

function take(lines, at) {
  const line = lines[at];
  if (FENCE.test(line)) return takeCode(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return [{kind: "heading", level: heading[1].length, text: withoutEnd(heading[2])}, at + 1];
  if (RULE.test(line)) return [{kind: "rule"}, at + 1];
  if (line.startsWith(">")) return takeQuote(lines, at);
  if (ITEM.test(line)) return takeList(lines, at);
  if (beginsTable(lines, at)) return takeTable(lines, at);
  return takeParagraph(lines, at);
}

/** [{source, block}], the source telling whether a block is still what it was. */
export function parseBlocks(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const [block, end] = take(lines, at);
    blocks.push({source: lines.slice(at, end).join("\n"), block});
    at = end;
  }
  return blocks;
}

function codeElement({language, text}) {
  const copy = iconButton("copy", "Copy code", () => copyText(text, copy));
  return h("figure", {class: "code"},
    h("figcaption", {}, h("span", {}, language || "text"), copy),
    h("pre", {tabindex: "0", "aria-label": `Code${language ? ` in ${language}` : ""}`}, h("code", {}, text)));
}

function tableElement({head, rows}) {
  const row = (cells, tag) => h("tr", {}, head.map((_, column) => h(tag, {}, ...inlineNodes(cells[column] ?? ""))));
  return h("div", {class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Table"},
    h("table", {}, h("thead", {}, row(head, "th")), h("tbody", {}, rows.map((cells) => row(cells, "td")))));
}

function children(lines, depth) {
  if (depth >= DEEPEST) return [h("p", {}, lines.join("\n"))];
  return parseBlocks(lines).map(({block}) => elementOf(block, depth + 1));
}

function itemElement(lines, depth) {
  const [first, ...rest] = children(lines, depth);
  if (!first) return h("li");
  // A single paragraph needs no space of its own.
  return h("li", {}, first.tagName === "P" ? [...first.childNodes] : first, rest);
}

function elementOf(block, depth) {
  switch (block.kind) {
    case "code": return codeElement(block);
    // The page has its own h1 and h2.
    case "heading": return h(`h${Math.min(6, block.level + 2)}`, {}, inlineNodes(block.text));
    case "rule": return h("hr");
    case "quote": return h("blockquote", {}, children(block.lines, depth));
    case "table": return tableElement(block);
    case "list":
      return h(block.isOrdered ? "ol" : "ul", {start: block.isOrdered && block.start !== 1 ? block.start : null},
        block.items.map((item) => itemElement(item, depth)));
    default: return h("p", {}, ...inlineNodes(block.text));
  }
}

/** Shows `text` in `target`, which holds nothing else. */
export function renderMarkdown(target, text) {
  const blocks = parseBlocks(text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n"));
  const known = target.markdownSources ?? [];
  let same = 0;
  while (same < blocks.length && known[same] === blocks[same].source) ++same;
  while (target.childNodes.length > same) target.lastChild.remove();
  for (const {block} of blocks.slice(same)) target.append(elementOf(block, 0));
  target.markdownSources = blocks.map(({source}) => source);
}
