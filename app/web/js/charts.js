// Charts as SVG: a curve with axes, reliability. Numbers are in the labels too, for those who do not see them.

const SPACE = "http://www.w3.org/2000/svg";

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(SVGElement | string)} children
 */
export function svg(name, attributes, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/**
 * Steps of a scale: 1, 2 or 5 times a power of ten, about `count` of them.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 * @param {number} [least] smallest step, 1 for what is counted
 */
export function ticks(low, high, count, least = 0) {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10) * power);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}

/** @typedef {{x: number, y: number, low?: number | null, high?: number | null, title?: string}} Point */

/**
 * A curve with both axes.
 * @param {Point[]} points
 * @param {{label: string, x: string, y: string, format: (value: number) => string, dots?: boolean, kind?: string, whole?: boolean, counted?: boolean}} options
 *   `label` says in words what it shows; `whole` begins the x axis at 0; `counted`: x is a whole number
 */
export function curve(points, { label, x, y, format, dots = false, kind = "", whole = false, counted = false }) {
  const [width, height, left, bottom, top, right] = [420, 200, 62, 34, 10, 12];
  const xs = points.map((point) => point.x);
  const ys = points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]);
  let [x0, x1] = [whole ? 0 : Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  if (x1 === x0) [x0, x1] = [Math.max(0, x0 - 1), x1 + 1];
  if (y1 - y0 < 1e-9) [y0, y1] = [y0 * 0.9, y1 * 1.1 || 1];
  const pad = 0.06 * (y1 - y0);
  [y0, y1] = [Math.max(0, y0 - pad), y1 + pad];
  const atX = (/** @type {number} */ value) => left + ((value - x0) / (x1 - x0)) * (width - left - right);
  const atY = (/** @type {number} */ value) => top + (1 - (value - y0) / (y1 - y0)) * (height - top - bottom);
  const parts = [];
  for (const value of ticks(y0, y1, 4)) {
    parts.push(svg("path", { class: "grid", d: `M${left} ${atY(value)}H${width - right}` }));
    parts.push(svg("text", { x: left - 6, y: atY(value) + 4, class: "tick end" }, format(value)));
  }
  for (const value of ticks(x0, x1, 6, counted ? 1 : 0)) parts.push(svg("text", { x: atX(value), y: height - bottom + 16, class: "tick middle" }, Number(value.toPrecision(4)).toLocaleString(undefined, { maximumSignificantDigits: 4 })));
  parts.push(svg("text", { x: (left + width - right) / 2, y: height - 3, class: "tick middle" }, x));
  parts.push(svg("text", { x: -(top + height - bottom) / 2, y: 11, class: "tick middle", transform: "rotate(-90)" }, y));
  const line = [...points].sort((a, b) => a.x - b.x);
  for (const { x: at, low, high } of line) if (typeof low === "number" && typeof high === "number") parts.push(svg("path", { class: "whisker", d: `M${atX(at)} ${atY(low)}V${atY(high)}` }));
  parts.push(svg("polyline", { class: `line ${kind}`, points: line.map((point) => `${atX(point.x).toFixed(1)},${atY(point.y).toFixed(1)}`).join(" ") }));
  if (dots || points.length === 1) for (const point of line) parts.push(svg("circle", { class: `dot ${kind}`, cx: atX(point.x), cy: atY(point.y), r: 3.5 }, svg("title", {}, point.title ?? format(point.y))));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": label }, ...parts);
}

/**
 * How often answers of a posterior are right, with the diagonal on which they should lie.
 * @param {{confidence: number, accuracy: number, count: number, low?: number, high?: number, interval?: any}[]} bins
 * @param {{label: string, x: string, y: string, title: (bin: any) => string}} options
 */
export function reliability(bins, { label, x, y, title }) {
  const [size, left, bottom, top] = [280, 46, 36, 8];
  const at = (/** @type {number} */ value) => left + value * (size - left - 8);
  const up = (/** @type {number} */ value) => top + (1 - value) * (size - top - bottom);
  const parts = [];
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(svg("path", { class: "grid", d: `M${at(0)} ${up(value)}H${at(1)}` }));
    parts.push(svg("text", { x: left - 6, y: up(value) + 4, class: "tick end" }, String(value)));
    parts.push(svg("text", { x: at(value), y: size - bottom + 15, class: "tick middle" }, String(value)));
  }
  parts.push(svg("path", { class: "ideal", d: `M${at(0)} ${up(0)}L${at(1)} ${up(1)}` }));
  parts.push(svg("text", { x: at(0.5), y: size - 4, class: "tick middle" }, x));
  parts.push(svg("text", { x: -up(0.5), y: 11, class: "tick middle", transform: "rotate(-90)" }, y));
  const usable = bins.filter((bin) => bin.count > 0 && bin.confidence !== null && bin.accuracy !== null);
  const intervals = usable.map((bin) => ({ bin, low: bin.interval?.low ?? null, high: bin.interval?.high ?? null }));
  for (const { bin, low, high } of intervals) if (low !== null && high !== null) parts.push(svg("path", { class: "whisker", d: `M${at(bin.confidence)} ${up(low)}V${up(high)}` }));
  parts.push(svg("polyline", { class: "line", points: usable.map((bin) => `${at(bin.confidence).toFixed(1)},${up(bin.accuracy).toFixed(1)}`).join(" ") }));
  for (const bin of usable) parts.push(svg("circle", { class: "dot", cx: at(bin.confidence), cy: up(bin.accuracy), r: 4 }, svg("title", {}, title(bin))));
  return svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "plot square", role: "img", "aria-label": label }, ...parts);
}
