// Elements without markup: text goes in as text, so nothing that a model says becomes HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "x", onclick: f}, "text", node): null and false children are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

/** One of the symbols in index.html; decoration, as what it means is said in words beside it. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** A button that is an icon, with its name for those who do not see it. */
export function iconButton(name, label, onclick, extra = {}) {
  return h("button", {type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...extra},
    icon(name));
}

/** Sets the text only where it is another one: a page that is read out is not told twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Copies, and shows for a moment that it did. */
export async function copyText(text, button) {
  const label = button.getAttribute("aria-label");
  let done = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = "Not copied: the browser did not allow it";
  }
  button.setAttribute("aria-label", done);
  button.title = done;
  button.classList.add("is-done");
  setTimeout(() => {
    button.setAttribute("aria-label", label);
    button.title = label;
    button.classList.remove("is-done");
  }, 1600);
}
