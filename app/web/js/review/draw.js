// What several lanes draw with: text, columns of certainty, which rows are in view.
import { fillOf, shade } from "../colors.js";

/** @typedef {import("./store.js").Row} Row */

export const FONT = '"Noto Sans Phones", "Noto Sans", "Charis SIL", "Doulos SIL", system-ui, sans-serif';

/**
 * Index of the first row that ends after a time.
 * @param {Row[]} rows
 * @param {number} time
 */
export function firstVisible(rows, time) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.[2] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Certainty where segments are thinner than pixels: each column has the least of its segments.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./store.js").ReviewFile} file
 * @param {number} width
 * @param {number} begin
 * @param {number} end
 * @param {number} top
 * @param {number} height
 * @param {(row: Row) => number} [value]
 */
export function columns(context, file, width, begin, end, top, height, value = (row) => file.certainty(row)) {
  const least = new Int8Array(Math.ceil(width)).fill(-1);
  const scale = width / (end - begin);
  const rows = file.rows;
  for (let i = firstVisible(rows, begin); i < rows.length; i++) {
    const row = /** @type {Row} */ (rows[i]);
    if (row[1] > end) break;
    const index = shade(value(row));
    if (index < 0) continue;
    const to = Math.min(least.length - 1, ((row[2] - begin) * scale) | 0);
    for (let x = Math.max(0, ((row[1] - begin) * scale) | 0); x <= to; x++) {
      const before = least[x] ?? -1;
      if (before < 0 || index < before) least[x] = index;
    }
  }
  for (let x = 0; x < least.length; ) {
    const index = least[x] ?? -1;
    let next = x + 1;
    while (next < least.length && least[next] === index) next++;
    if (index >= 0) {
      context.fillStyle = fillOf(index);
      context.fillRect(x, top, next - x, height);
    }
    x = next;
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {string} colour
 * @param {string} [font]
 */
export function label(context, text, x, y, colour, font = "11px") {
  context.font = `${font} ${FONT}`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

/**
 * Text in the middle of a stretch, cut where it does not fit; none where a cut would leave another label: `A` of `AH`.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} from
 * @param {number} to
 * @param {number} y
 * @param {string} colour
 */
export function fit(context, text, from, to, y, colour) {
  const room = to - from - 4;
  if (room < 5) return;
  context.fillStyle = colour;
  context.textAlign = "center";
  let shown = text.length > 40 ? `${text.slice(0, 39)}…` : text;
  if (context.measureText(shown).width > room + 3) {
    while (shown.length > 2 && context.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
    if (shown.length < 2 || shown === "…" || context.measureText(shown).width > room + 3) return;
  }
  context.fillText(shown, (from + to) / 2, y);
}
