// The last minutes as plots, drawn by uPlot (a script of its own: window.uPlot).
import {byId, h, setText} from "./dom.js";
import {clock, count, hourAndMinute, milliseconds, percent, rate, roundMilliseconds} from "./format.js";

const HEIGHT = 148;
/** Colours and dashes by a series' place, so that no line is told by its colour alone. */
const DASHES = [[], [5, 3], [2, 3], [9, 4], [9, 3, 2, 3], [1, 2]];

const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

const TIME_LINES = [["half below", "median_ms"], ["95 % below", "high_ms"]];
const MOST_LINES = 6;

/** Of a long chain what counts: the busiest stage, which it is as fast as, and all of them together. */
export function loadLines(stages) {
  if (stages.length <= MOST_LINES) return stages.map((use, stage) => [`stage ${stage + 1}`, use]);
  const known = stages[0].map((_, at) => stages.map((use) => use[at]).filter((value) => value !== null));
  const mean = (values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  return [["busiest", known.map((values) => values.length ? Math.max(...values) : null)], ["mean", known.map(mean)]];
}

const PLOTS = [
  {id: "tokens", title: "Tokens per second", format: rate,
   lines: (data) => [["generated", data.tokens_per_s], ["prompt", data.prompt_tokens_per_s]]},
  {id: "requests", title: "Requests", format: count, isWhole: true, least: 4,
   lines: (data) => [["running", data.running], ["waiting", data.waiting]]},
  {id: "first", title: "Time to first token", format: milliseconds, tick: roundMilliseconds, isPoints: true,
   lines: (data) => TIME_LINES.map(([name, column]) => [name, data.first_token[column]])},
  {id: "next", title: "Time per token", format: milliseconds, tick: roundMilliseconds, isPoints: true,
   lines: (data) => TIME_LINES.map(([name, column]) => [name, data.next_token[column]])},
  {id: "kv", title: "KV cache in use", format: percent, least: 0.05, most: 1,
   lines: (data) => [["in use", data.kv_use]]},
  {id: "load", title: "Load of stages", format: percent, least: 1, most: 1,
   lines: (data) => loadLines(data.stage_use)},
];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Seconds only where the labels are less than a minute apart. */
function timeTexts(times) {
  return times.map(times.every((time) => time % 60 === 0) ? hourAndMinute : clock);
}

function lastNumber(values) {
  for (let at = values.length - 1; at >= 0; --at) {
    if (values[at] !== null) return values[at];
  }
  return null;
}

class Plot {
  constructor(definition, range) {
    this.definition = definition;
    this.range = range;
    this.names = [];
    this.keys = h("p", {class: "plot-keys"});
    this.canvas = h("div", {class: "plot-canvas", role: "img"});
    this.element = h("figure", {class: "plot", id: `plot-${definition.id}`},
      h("figcaption", {}, h("h4", {}, definition.title), this.keys), this.canvas);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  /** Of other lines, or another look: made anew. */
  build(lines) {
    this.drawing?.destroy();
    this.names = lines.map(([name]) => name);
    this.values = lines.map(() => h("b"));
    const key = ([name], at) => h("span", {class: `key key-${(at % 6) + 1}`}, `${name} `, this.values[at]);
    this.keys.replaceChildren(...lines.map(key));
    const {format, tick = format, isWhole} = this.definition;
    const axis = {stroke: colour("--muted"), font: `11px ${colour("--sans")}`, ticks: {show: false},
                  grid: {stroke: colour("--line"), width: 1}};
    this.drawing = new window.uPlot({
      width: Math.max(this.canvas.clientWidth, 50), height: HEIGHT,
      legend: {show: false},
      padding: [8, 8, 0, 0],
      cursor: {sync: {key: "fleet"}, drag: {x: false, y: false}, y: false},
      scales: {x: {time: true, range: () => this.range()}, y: {range: (_, __, most) => [0, this.topOf(most)]}},
      axes: [{...axis, space: 64, size: 28, values: (_, times) => timeTexts(times)},
             {...axis, size: 54, space: 30, incrs: isWhole ? WHOLE_STEPS : undefined,
              values: (_, ticks) => ticks.map(tick)}],
      series: [{}, ...lines.map((_, at) => this.seriesOptions(at))],
      hooks: {setCursor: [() => this.showValues()]},
    }, [[], ...lines.map(() => [])], this.canvas);
  }

  seriesOptions(at) {
    const stroke = colour(`--series-${(at % 6) + 1}`);
    if (this.definition.isPoints) {
      // The second is a ring around the first where both are one: of a single request, say.
      const points = at === 0 ? {size: 4, fill: stroke} : {size: 7, fill: "transparent"};
      return {stroke, width: 0, paths: () => null, points: {show: true, width: 1, stroke, ...points}};
    }
    const fill = at === 0 && this.names.length < 3 ? colour("--series-fill") : undefined;
    return {stroke, width: 1.75, dash: DASHES[at % 6], points: {show: false}, fill};
  }

  topOf(most) {
    const {least = 1, most: bound = Infinity} = this.definition;
    return Math.min(bound, Math.max(least, (most ?? 0) * 1.15));
  }

  show(data) {
    const lines = this.definition.lines(data);
    if (!this.drawing || lines.map(([name]) => name).join() !== this.names.join()) this.build(lines);
    this.lines = lines.map(([, values]) => values);
    this.drawing.setData([data.time, ...this.lines]);
    this.showValues();
  }

  /** Those under the cursor, else the latest. */
  showValues() {
    if (!this.lines) return;
    const at = this.drawing.cursor.idx;
    const {format, title} = this.definition;
    const shown = this.lines.map((values) => format(typeof at === "number" ? values[at] : lastNumber(values)));
    shown.forEach((text, line) => setText(this.values[line], text));
    const said = this.names.map((name, line) => `${name} ${shown[line]}`).join(", ");
    this.canvas.setAttribute("aria-label", `${title}: ${said}`);
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (this.drawing && width > 0 && width !== this.drawing.width) this.drawing.setSize({width, height: HEIGHT});
  }

  forget() {
    this.drawing?.destroy();
    this.drawing = null;
  }
}

export class Plots {
  constructor() {
    this.minutes = 5;
    this.data = null;
    const range = () => {
      const end = this.data?.time.at(-1) ?? Date.now() / 1000;
      return [end - this.minutes * 60, end];
    };
    this.plots = window.uPlot ? PLOTS.map((definition) => new Plot(definition, range)) : [];
    byId("plots").replaceChildren(...this.plots.map((plot) => plot.element));
    byId("plots-missing").hidden = this.plots.length > 0;
    for (const choice of document.querySelectorAll("input[name=minutes]")) {
      choice.onchange = () => this.choose(Number(choice.value));
    }
    // Colours are read when a plot is made.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const plot of this.plots) plot.forget();
      if (this.data) this.show(this.data);
    });
  }

  choose(minutes) {
    this.minutes = minutes;
    if (this.data) this.show(this.data);
  }

  /** `data`: columns as GET /fleet has them. */
  show(data) {
    this.data = data;
    for (const plot of this.plots) plot.show(data);
  }
}
