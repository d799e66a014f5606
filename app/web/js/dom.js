// Elements from plain values. Text only ever becomes text nodes, so markup in names and labels stays text.

/** @typedef {Node | string | number | null | undefined | false | any[]} Child */

/**
 * An element. Properties that begin with "on" are listeners, `class`, `role`, `for`, names with a dash and those in lower
 * case that the element does not have are attributes, everything else is set as a property.
 * @param {string} tag
 * @param {Record<string, any> | null} [properties]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name in element && !name.includes("-") && name !== "class" && name !== "role" && name !== "list")
      /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
export function append(element, children) {
  for (const child of children.flat(2)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replace what the element holds.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * An icon out of this table; decoration only, the button says what it does.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

const ICONS = {
  play: "M4 2.5v11l9-5.5z",
  stop: "M3.5 3.5h9v9h-9z",
  undo: "M6 3 2.5 6.5 6 10M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6",
  redo: "m10 3 3.5 3.5L10 10m3-3.500H6.500a3.500 3.500 0 0 0 0 7H10",
  history: "M2.500 3v3.500H6M3 6.200A5.500 5.500 0 1 1 2.700 9.500M8 5v3.200l2.200 1.500",
  check: "m3 8.500 3.500 3.500L13 4.500",
  close: "m4 4 8 8m0-8-8 8",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  download: "M8 2v8m-3.500-3.500L8 10l3.500-3.500M2.500 13.500h11",
  theme: "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11",
  trash: "M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.5 9h6l.5-9",
  drop: "M8 10.500v-8m-3 3 3-3 3 3M2.500 10v3.500h11V10",
  next: "M2.500 8h10m-4-4 4 4-4 4",
  whole: "M2.500 8h11M5 5 2.500 8 5 11m6-6 2.500 3L11 11",
  loop: "M3 8a5 5 0 0 1 9-3m1-2v3h-3M13 8a5 5 0 0 1-9 3m-1 2v-3h3",
  context: "M2.500 4v8m11-8v8M5.500 8h5",
  train: "M2.500 13.500v-11m0 11h11M4.500 5c2 5 4 6.500 8.500 7",
  split: "M8 2.500v11M3 5.500 5.500 8 3 10.500m10-5L10.500 8l2.500 2.500",
  merge: "M2.500 8h4m-2-2 2 2-2 2m9-2h-4m2-2-2 2 2 2",
};
