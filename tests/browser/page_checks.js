// For tests of the page: what a script can find out about how it looks.
(() => {
  function isVisible(element) {
    return element.checkVisibility({opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true}) &&
      element.getClientRects().length > 0;
  }

  /** "rgb(1 2 3 / 40%)" in any of a browser's spellings, as [r, g, b, alpha]. */
  function colourOf(text) {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return [...numbers.slice(0, 3), numbers[3] ?? 1];
  }

  function over(front, back) {
    const alpha = front[3];
    return [0, 1, 2].map((part) => front[part] * alpha + back[part] * (1 - alpha)).concat(1);
  }

  function backgroundOf(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = colourOf(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
  }

  function luminance([r, g, b]) {
    const linear = [r, g, b].map((part) => part / 255).map((part) =>
      part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }

  function contrast(first, second) {
    const [dark, light] = [luminance(first), luminance(second)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  /** Texts that are too pale (WCAG 2.2, AA), each as a line; and how many were looked at. */
  function paleTexts() {
    const found = [];
    let seen = 0;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const text = walker.currentNode.data.trim();
      if (text === "" || !isVisible(element) || element.closest(".unseen, .skip, option, :disabled")) continue;
      const style = getComputedStyle(element);
      const size = parseFloat(style.fontSize);
      if (size === 0) continue;
      ++seen;
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const back = backgroundOf(element);
      const ratio = contrast(over(colourOf(style.color), back), back);
      if (ratio >= (isLarge ? 3 : 4.5)) continue;
      found.push(`${ratio.toFixed(2)} "${text.slice(0, 30)}" ${element.tagName}.${element.className}`);
    }
    return {seen, found};
  }

  /** What stands out of the page to the right, but for what scrolls by itself. */
  function tooWide() {
    const width = document.documentElement.clientWidth;
    const found = [...document.body.querySelectorAll("*")].filter((element) =>
      isVisible(element) && !element.closest(".unseen, .skip, pre, .table-wrap, .plot-canvas, svg") &&
      element.getBoundingClientRect().right > width + 0.5);
    return found.map((element) => `${element.tagName}#${element.id}.${element.className}`);
  }

  /** Pixels of a plot that have its first line's colour. */
  function drawnPixels(selector, variable) {
    const canvas = document.querySelector(`${selector} canvas`);
    if (!canvas || canvas.width === 0) return 0;
    const probe = document.createElement("span");
    probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(variable);
    document.body.append(probe);
    const wanted = colourOf(getComputedStyle(probe).color);
    probe.remove();
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
    copy.drawImage(canvas, 0, 0);
    const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      const isNear = [0, 1, 2].every((part) => Math.abs(data[at + part] - wanted[part]) < 24);
      if (isNear && data[at + 3] > 128) ++count;
    }
    return count;
  }

  window.checks = {contrast, paleTexts, tooWide, drawnPixels};
})();
