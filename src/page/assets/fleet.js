// The fleet: asked once a second, and shown as figures, chain, plots and requests.
import {getJson} from "./api.js";
import {byId, h, setText} from "./dom.js";
import {count, milliseconds, percent, rate} from "./format.js";
import {Plots} from "./plots.js";
import {RequestTable} from "./requests.js";
import {Topology} from "./topology.js";

const MOST_SAMPLES = 600;
const RECENT = 60;

/** Appends `from` to `to`, column by column, at any depth. A column that is new begins here. */
function append(to, from) {
  for (const [name, column] of Object.entries(from)) {
    if (Array.isArray(column) && !Array.isArray(column[0])) {
      (to[name] ??= []).push(...column);
      if (to[name].length > MOST_SAMPLES) to[name].splice(0, to[name].length - MOST_SAMPLES);
    } else {
      append(to[name] ??= Array.isArray(column) ? [] : {}, column);
    }
  }
}

/** What is known of each model's last minutes. */
export class History {
  constructor() {
    this.clear();
  }

  clear() {
    this.models = new Map();
    this.last = 0;
  }

  take(fleet) {
    const names = new Set(fleet.models.map((model) => model.id));
    for (const name of this.models.keys()) if (!names.has(name)) this.models.delete(name);
    for (const {id, samples} of fleet.models) {
      if (!samples) continue;
      const known = this.models.get(id);
      // A chain of other stages has columns of its own: what was before it is another chain's.
      if (known && known.stage_use.length === samples.stage_use.length) append(known, samples);
      else this.models.set(id, samples);
    }
    this.last = fleet.last_sample;
  }

  of(id) {
    return this.models.get(id) ?? null;
  }
}

/** Over the last minute, of the samples that have one. */
function recentMedian(values) {
  const recent = values.slice(-RECENT).filter((value) => value !== null).sort((a, b) => a - b);
  return recent.length ? recent[Math.floor((recent.length - 1) / 2)] : null;
}

/** Asks for what is new, as often as somebody looks. */
export class FleetFeed {
  constructor(listener) {
    this.listener = listener;
    this.history = new History();
    this.startedAt = null;
    this.requestsAfter = 0;
    this.isWatched = false;
    this.isRefused = false;
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.soon(); });
    this.soon();
  }

  /** While the fleet is on the screen it is asked each second. */
  watch(isWatched) {
    this.isWatched = isWatched;
    if (isWatched) this.soon();
  }

  soon() {
    clearTimeout(this.timer);
    if (!this.isAsking && !this.isRefused) this.ask();
  }

  /** There may be a key now. */
  retry() {
    this.isRefused = false;
    this.soon();
  }

  async ask() {
    this.isAsking = true;
    try {
      const query = new URLSearchParams({sample: this.history.last, request: this.requestsAfter});
      this.take(await getJson(`/fleet?${query}`));
    } catch (error) {
      // Who would rather give no key is not asked again each second.
      this.isRefused = error.status === 401;
      this.listener.onLost(error);
    }
    this.isAsking = false;
    if (document.hidden || this.isRefused) return;
    this.timer = setTimeout(() => this.ask(), this.isWatched ? 1000 : 3000);
  }

  take(fleet) {
    const isOther = this.startedAt !== null && fleet.started_at !== this.startedAt;
    this.startedAt = fleet.started_at;
    if (isOther) {
      // The server was started anew and counts from 1: all of it is asked again.
      this.history.clear();
      this.requestsAfter = 0;
      this.listener.onRestart();
      return;
    }
    this.history.take(fleet);
    if (fleet.requests.length) this.requestsAfter = fleet.requests.at(-1).number;
    this.listener.onFleet(fleet, this.history);
  }
}

export class FleetView {
  constructor() {
    this.topology = new Topology();
    this.plots = new Plots();
    this.requests = new RequestTable();
    this.select = byId("fleet-model");
    this.select.onchange = () => this.show();
  }

  restart() {
    this.requests.clear();
  }

  take(fleet, history) {
    this.fleet = fleet;
    this.history = history;
    this.requests.add(fleet.requests);
    const ids = fleet.models.map((model) => model.id);
    if (ids.join("\n") !== [...this.select.options].map((option) => option.value).join("\n")) {
      const chosen = this.select.value;
      this.select.replaceChildren(...ids.map((id) => h("option", {value: id}, id)));
      if (ids.includes(chosen)) this.select.value = chosen;
    }
    byId("fleet-model-choice").hidden = ids.length < 2;
    this.show();
  }

  show() {
    const model = this.fleet?.models.find((one) => one.id === this.select.value);
    const samples = model ? this.history.of(model.id) : null;
    setText(byId("fleet-title"), model?.id ?? "Fleet");
    this.showState(model);
    this.topology.show(model, samples ? samples.stage_use.map((use) => use.at(-1)) : []);
    this.showFigures(samples);
    // Hidden plots have no width.
    if (samples && !byId("fleet-view").hidden) this.plots.show(samples);
  }

  showState(model) {
    const texts = {ready: "", loading: "The model is being loaded …",
                   failed: "The chain has failed: nothing is answered any more. The server's log says why."};
    const text = model ? texts[model.state] : "No model is served.";
    setText(byId("fleet-state"), text ?? "");
    byId("fleet-state").hidden = !text;
  }

  showFigures(samples) {
    const latest = (values) => values?.at(-1) ?? null;
    const shown = {
      tokens: rate(latest(samples?.tokens_per_s)),
      running: count(latest(samples?.running)),
      waiting: count(latest(samples?.waiting)),
      kv: percent(latest(samples?.kv_use)),
      first: milliseconds(samples ? recentMedian(samples.first_token.median_ms) : null),
      next: milliseconds(samples ? recentMedian(samples.next_token.median_ms) : null),
    };
    for (const [name, text] of Object.entries(shown)) setText(byId(`figure-${name}`), text);
  }
}
