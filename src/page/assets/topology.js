// The chain as it stands: a card for each stage, in the order in which activations pass them.
import {byId, h, setText} from "./dom.js";
import {bytes, count, milliseconds, percent, plural} from "./format.js";

const ISA_NAMES = {
  avx512_core_amx: "AVX-512 with AMX", avx512_core_amx_fp16: "AVX-512 with AMX", avx512_core_bf16: "AVX-512 with bf16",
  avx512_core_vnni: "AVX-512 with VNNI", avx512_core: "AVX-512", avx2_vnni: "AVX2 with VNNI", avx2: "AVX2",
};

function fact(name, value) {
  return h("div", {class: "fact"}, h("dt", {}, name), h("dd", {}, value));
}

function layersText([begin, end]) {
  return end - begin === 1 ? `Layer ${begin}` : `Layers ${begin}–${end - 1}`;
}

class StageCard {
  constructor(number) {
    this.title = h("h4", {}, `Stage ${number + 1}`);
    this.use = h("span", {class: "use"});
    this.bar = h("span");
    this.meter = h("div", {class: "meter", role: "meter", "aria-label": `Load of stage ${number + 1}`,
                           "aria-valuemin": 0, "aria-valuemax": 100}, this.bar);
    this.machine = h("p", {class: "machine"});
    this.share = h("span");
    this.layers = h("p", {class: "layers"});
    this.facts = h("dl");
    this.element = h("li", {class: "stage"},
      h("div", {class: "stage-head"}, this.title, this.use), this.meter, this.machine,
      h("div", {class: "layer-track", "aria-hidden": "true"}, this.share), this.layers, this.facts);
  }

  show(stage, use, model, allLayers) {
    setText(this.use, use === null ? "" : `${percent(use)} busy`);
    this.bar.style.width = `${(use ?? 0) * 100}%`;
    this.meter.setAttribute("aria-valuenow", Math.round((use ?? 0) * 100));
    this.machine.replaceChildren(h("span", {}, stage.worker || "worker"), h("code", {}, stage.address));
    const [begin, end] = stage.layers;
    this.share.style.left = `${(begin / allLayers) * 100}%`;
    this.share.style.width = `${((end - begin) / allLayers) * 100}%`;
    setText(this.layers, `${layersText(stage.layers)} of ${allLayers}`);
    this.showFacts(stage, model);
  }

  showFacts(stage, model) {
    const used = model.kv_blocks ? 1 - (model.kv_free_blocks ?? model.kv_blocks) / model.kv_blocks : 0;
    const threads = stage.threads ? ` · ${plural(stage.threads, "thread")}` : "";
    const queued = stage.queued_steps ? fact("Waiting steps", count(stage.queued_steps)) : null;
    const shown = [
      fact("Device", `${stage.device}${threads}`),
      fact("Instructions", ISA_NAMES[stage.isa] ?? (stage.isa || "–")),
      fact("Weights", bytes(stage.weight_bytes)),
      fact("KV cache", `${percent(used)} of ${bytes(stage.kv_bytes)}`),
      fact("Process", stage.machine_bytes ? `${bytes(stage.resident_bytes)} of ${bytes(stage.machine_bytes)}`
                                          : bytes(stage.resident_bytes)),
      fact("Round trip", milliseconds(stage.round_trip_ms)),
      queued,
    ].filter(Boolean);
    const text = shown.map((row) => row.textContent).join();
    if (text !== this.shown) this.facts.replaceChildren(...shown);
    this.shown = text;
  }
}

export class Topology {
  constructor() {
    this.list = byId("stages");
    this.cards = [];
  }

  /** `use`: of each stage, 0 to 1 or null. */
  show(model, use) {
    const stages = model?.stages ?? [];
    if (this.cards.length !== stages.length) {
      this.cards = stages.map((_, number) => new StageCard(number));
      this.list.replaceChildren(...this.cards.map((card) => card.element));
    }
    const allLayers = Math.max(1, ...stages.map((stage) => stage.layers[1]));
    stages.forEach((stage, number) => this.cards[number].show(stage, use[number] ?? null, model, allLayers));
  }
}
