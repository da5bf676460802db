// How answers are made: what is left empty is as the model's publisher says, and is not sent.
import {byId} from "./dom.js";

const STORED = "paceline.settings";
const NUMBERS = ["temperature", "top_p", "max_tokens"];

export class Settings {
  constructor() {
    this.values = {system: "", temperature: "", top_p: "", max_tokens: ""};
    try {
      Object.assign(this.values, JSON.parse(sessionStorage.getItem(STORED) ?? "{}"));
    } catch {
      // As if nothing was set.
    }
    this.dialog = byId("settings-dialog");
    this.form = byId("settings-form");
    byId("settings-reset").onclick = () => this.form.reset();
    byId("settings-cancel").onclick = () => this.dialog.close();
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.read();
      this.dialog.close();
    };
    this.showState();
  }

  open() {
    this.form.reset();
    for (const [name, value] of Object.entries(this.values)) {
      if (this.form.elements[name]) this.form.elements[name].value = value;
    }
    this.dialog.showModal();
  }

  read() {
    for (const name of Object.keys(this.values)) this.values[name] = this.form.elements[name].value.trim();
    sessionStorage.setItem(STORED, JSON.stringify(this.values));
    this.showState();
  }

  /** Whether any is set is seen without opening them. */
  showState() {
    const isSet = Object.values(this.values).some((value) => value !== "");
    const button = byId("settings-open");
    button.classList.toggle("is-set", isSet);
    button.setAttribute("aria-label", isSet ? "Settings, changed" : "Settings");
  }

  get systemPrompt() {
    return this.values.system;
  }

  /** Fields of a request. */
  fields() {
    const set = NUMBERS.filter((name) => this.values[name] !== "" && Number.isFinite(Number(this.values[name])));
    return Object.fromEntries(set.map((name) => [name, Number(this.values[name])]));
  }
}
