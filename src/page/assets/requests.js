// The log of requests: ids, times and counts.
import {byId, h} from "./dom.js";
import {clock, count, milliseconds, rate} from "./format.js";

const MOST_ROWS = 100;
const ENDS = {stop: "done", length: "at limit", cancelled: "cancelled", error: "failed", refused: "refused"};

function decodeRate(request) {
  const seconds = (request.whole_ms - (request.first_token_ms ?? request.whole_ms)) / 1000;
  return request.generated_tokens > 1 && seconds > 0 ? (request.generated_tokens - 1) / seconds : null;
}

/** What was refused has no counts: it was not begun. */
function asFarAsBegun(request) {
  if (request.end !== "refused") return request;
  return {...request, prompt_tokens: null, generated_tokens: null, queue_ms: null};
}

function cells(record) {
  const request = asFarAsBegun(record);
  const end = ENDS[request.end] ?? request.end;
  const isBad = request.end === "error" || request.end === "refused";
  const cached = request.reused_tokens;
  const reused = cached ? h("span", {class: "quiet"}, ` (${count(cached)} cached)`) : null;
  return [
    h("td", {class: "num"}, clock(request.time)),
    h("td", {class: "id"}, h("code", {title: request.id}, request.id),
      request.tenant ? h("span", {class: "quiet"}, ` ${request.tenant}`) : null),
    h("td", {class: "wide", title: request.model}, request.route.replace("/v1/", "")),
    h("td", {class: "num wide"}, count(request.prompt_tokens), reused),
    h("td", {class: "num"}, count(request.generated_tokens)),
    h("td", {class: "num wide"}, milliseconds(request.queue_ms)),
    h("td", {class: "num medium"}, milliseconds(request.first_token_ms)),
    h("td", {class: "num"}, milliseconds(request.whole_ms)),
    h("td", {class: "num medium"}, rate(decodeRate(request))),
    h("td", {class: isBad ? "bad" : ""}, request.status ? `${end} (${request.status})` : end),
  ];
}

export class RequestTable {
  constructor() {
    this.body = byId("request-rows");
    this.last = 0;
  }

  /** Those that are new, older ones first. */
  add(requests) {
    for (const request of requests) {
      this.body.prepend(h("tr", {}, cells(request)));
      this.last = request.number;
    }
    while (this.body.childElementCount > MOST_ROWS) this.body.lastElementChild.remove();
    const isEmpty = this.body.childElementCount === 0;
    byId("request-table").hidden = isEmpty;
    byId("request-none").hidden = !isEmpty;
  }

  clear() {
    this.body.replaceChildren();
    this.last = 0;
  }
}
