// The API key, where the server asks for one: kept for this tab alone.
import {byId, setText} from "./dom.js";

const STORED = "paceline.key";
let asking = null;
let listener = () => {};

/** Called when a key was given: what could not be shown before can be tried again. */
export function onKey(call) {
  listener = call;
}

export function key() {
  return sessionStorage.getItem(STORED) ?? "";
}

export function forgetKey() {
  sessionStorage.removeItem(STORED);
}

/** Asks once, however many requests wait for it; false where the reader would rather not. */
export function askForKey() {
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

function ask() {
  const dialog = byId("key-dialog");
  const input = byId("key-input");
  setText(byId("key-problem"), key() ? "The server did not take that key." : "");
  input.value = "";
  return new Promise((resolve) => {
    const finish = (given) => {
      form.onsubmit = null;
      dialog.onclose = null;
      if (dialog.open) dialog.close();
      resolve(given);
    };
    const form = byId("key-form");
    form.onsubmit = (event) => {
      event.preventDefault();
      // Nothing else can stand in a header.
      if (!/^[\x21-\x7e]+$/.test(input.value.trim())) {
        setText(byId("key-problem"), "A key has letters, digits and signs, and no spaces.");
        return;
      }
      sessionStorage.setItem(STORED, input.value.trim());
      input.value = "";
      finish(true);
      listener();
    };
    dialog.onclose = () => finish(false);
    dialog.showModal();
  });
}
