// What the timeline draws, lane by lane. Pure functions of the timeline's state.
import { fillOf, inkOn, shade } from "../colors.js";
import { posterior, t } from "../i18n.js";
import { columns, firstVisible, fit, FONT, label } from "./draw.js";
import { overview, ruler, spectrogram, wave } from "./sound-lanes.js";

export { firstVisible } from "./draw.js";

/** @typedef {import("./store.js").Row} Row */
/** @typedef {import("./store.js").Tier} Tier */
/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {{paper: string, ink: string, soft: string, line: string, accent: string, wave: string, band: string}} Theme */
/** @typedef {{kind: "overview" | "ruler" | "wave" | "spectrogram" | "tier" | "review" | "answer", top: number, height: number,
 *   name: string, tier?: Tier}} Lane */

const MAX_TIERS = 6;
const HEAD = 15; // pixels above a lane for its name

/**
 * @param {import("./store.js").ReviewFile} file
 * @param {number} room pixels there are; waveform and spectrogram grow into them
 * @returns {Lane[]}
 */
export function lanesOf(file, room = 0) {
  /** @type {Lane[]} */
  const lanes = [];
  let top = 0;
  const add = (/** @type {Lane["kind"]} */ kind, /** @type {number} */ height, name = "", /** @type {Tier | undefined} */ tier = undefined) => {
    lanes.push({ kind, top, height, name, ...(tier ? { tier } : {}) });
    top += height;
  };
  const tiers = Math.min(MAX_TIERS, file.answer.tiers.length - 1);
  const free = room - 34 - 22 - tiers * 42 - 2 * 62 - 8;
  const wave = Math.round(Math.min(150, Math.max(64, 0.3 * free)));
  add("overview", 34);
  add("ruler", 22);
  add("wave", wave);
  add("spectrogram", Math.round(Math.min(400, Math.max(140, free - wave))));
  let others = 0;
  file.answer.tiers.forEach((tier, index) => {
    if (index === file.meta.tier_index) add("review", 62, tier.name);
    else if (others++ < MAX_TIERS) add("tier", 42, tier.name, tier);
  });
  add("answer", 62, t("timeline.answer"));
  return lanes;
}

/** @param {Lane[]} lanes */
export function heightOf(lanes) {
  const last = lanes[lanes.length - 1];
  return last ? last.top + last.height + 2 : 0;
}

/**
 * @param {Lane[]} lanes
 * @param {number} y
 */
export function laneAt(lanes, y) {
  return lanes.find((lane) => y >= lane.top && y < lane.top + lane.height);
}

/**
 * Index of the first entry of a tier that ends after a time.
 * @param {Tier} tier
 * @param {number} time
 */
function firstEntry(tier, time) {
  let low = 0;
  let high = tier.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tier.end[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * @param {Tier} tier
 * @param {number} time
 */
export function entryAt(tier, time) {
  const index = firstEntry(tier, time);
  return (tier.start[index] ?? Infinity) <= time ? index : -1;
}

/**
 * How far a boundary can go: app/reviews/edits.py has the same rule.
 * @param {Row[]} rows
 * @param {number} index
 * @param {"start" | "end"} edge
 * @param {number} duration
 * @returns {[number, number]}
 */
export function roomOf(rows, index, edge, duration) {
  const own = /** @type {Row} */ (rows[index]);
  const beside = rows[edge === "start" ? index - 1 : index + 1];
  const facing = beside && (edge === "start" ? beside[2] : beside[1]);
  const at = edge === "start" ? own[1] : own[2];
  const touches = facing !== undefined && Math.abs(facing - at) <= 1e-6;
  if (edge === "start") return [touches && beside ? beside[1] + 0.001 : (facing ?? 0), own[2] - 0.001];
  return [own[1] + 0.001, touches && beside ? beside[2] - 0.001 : (facing ?? duration)];
}

/**
 * Colours of the theme, from the style sheet.
 * @param {Timeline} timeline
 * @returns {Theme}
 */
function themeOf(timeline) {
  if (!timeline.theme) {
    const style = getComputedStyle(timeline.canvas);
    const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    timeline.theme = {
      paper: read("--paper"), ink: read("--ink"), soft: read("--ink-soft"), line: read("--line"), accent: read("--accent"),
      wave: read("--wave"), band: read("--band"),
    };
    timeline.tiles.colours = [rgb(read("--spectrogram-paper")), rgb(read("--spectrogram-ink"))];
  }
  return timeline.theme;
}

/** @param {string} hex @returns {[number, number, number]} */
function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** @param {Timeline} timeline */
export function paint(timeline) {
  const theme = themeOf(timeline);
  const { context, width, height, file } = timeline;
  if (!file) return;
  context.setTransform(timeline.scale, 0, 0, timeline.scale, 0, 0);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, width, height);
  const row = file.rows[timeline.selected];
  for (const lane of timeline.lanes) {
    if (lane.kind === "overview") overview(timeline, lane, theme);
    else if (lane.kind === "ruler") ruler(timeline, lane, theme);
    else if (lane.kind === "wave") wave(timeline, lane, theme);
    else if (lane.kind === "spectrogram") spectrogram(timeline, lane, theme);
    else if (lane.kind === "tier") tier(timeline, lane, theme);
    else segments(timeline, lane, theme, lane.kind === "answer");
  }
  if (file.answer.boundaries) boundaries(timeline, theme);
  const above = /** @type {Lane} */ (timeline.lanes.find((lane) => lane.kind === "wave"));
  const below = heightOf(timeline.lanes) - 2;
  const band = timeline.range ?? (row ? [row[1], row[2]] : null);
  if (band) {
    const x = timeline.xOf(band[0] ?? 0);
    const w = Math.max(1, timeline.xOf(band[1] ?? 0) - x);
    const bottom = timeline.range ? below : (timeline.lanes.find((lane) => lane.kind === "tier" || lane.kind === "review")?.top ?? below);
    context.fillStyle = theme.band;
    context.fillRect(x, above.top, w, bottom - above.top);
    context.fillStyle = theme.accent;
    context.fillRect(x - 0.5, above.top, 1, below - above.top);
    context.fillRect(x + w - 0.5, above.top, 1, below - above.top);
  }
  if (timeline.drag) {
    context.fillStyle = theme.accent;
    context.fillRect(timeline.xOf(timeline.drag.time) - 1, above.top, 2, below - above.top);
    label(context, `${timeline.drag.time.toFixed(3)} s`, timeline.xOf(timeline.drag.time) + 6, above.top + 14, theme.accent, "600 12px");
  }
  const time = timeline.player.time;
  for (const at of [timeline.cursor, time]) {
    if (at === null || at < timeline.begin || at > timeline.end) continue;
    context.fillStyle = at === time ? theme.accent : theme.soft;
    context.fillRect(timeline.xOf(at) - 0.5, above.top, at === time ? 1.5 : 1, below - above.top);
  }
}

/**
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
function tier(timeline, lane, theme) {
  const { context, width } = timeline;
  const own = /** @type {Tier} */ (lane.tier);
  const top = lane.top + HEAD;
  name(context, lane, theme, width);
  context.font = `12px ${FONT}`;
  context.textBaseline = "middle";
  let skip = -1;
  for (let i = own.kind === "point" ? 0 : firstEntry(own, timeline.begin); i < own.start.length; i++) {
    const start = own.start[i] ?? 0;
    if (start > timeline.end) break;
    const x = timeline.xOf(start);
    if (own.kind === "point" && x < -40) continue;
    const w = own.kind === "point" ? 60 : timeline.xOf(own.end[i] ?? 0) - x;
    if (w < 2 && x < skip) continue;
    skip = x + 2;
    context.fillStyle = theme.line;
    context.fillRect(x, top, 1, lane.height - HEAD);
    const text = own.text[i] ?? "";
    if (text && w > 14) fit(context, text, Math.max(x, 0), Math.min(x + w, width), top + (lane.height - HEAD) / 2 + 1, theme.ink);
  }
}

/**
 * Boundaries that were found, through sound and segments: the surer, the wider and the stronger the line. Those of the
 * chosen segment show the stretch that holds 90 % of their posterior.
 * @param {Timeline} timeline
 * @param {Theme} theme
 */
function boundaries(timeline, theme) {
  const { context, file, lanes } = timeline;
  const top = lanes.find((lane) => lane.kind === "wave")?.top ?? 0;
  const own = lanes.find((lane) => lane.kind === "review");
  if (!file || !own) return;
  const rows = file.rows;
  const first = firstVisible(rows, timeline.begin);
  const last = Math.min(rows.length, firstVisible(rows, timeline.end) + 1);
  if (last - first > timeline.width / 12) return; // thinner than their lines
  const sound = lanes.find((lane) => lane.kind === "spectrogram");
  const height = (sound ? sound.top + sound.height : own.top) - top;
  context.save();
  for (let i = first; i < last; i++) {
    const row = rows[i];
    const found = file.boundary(row);
    if (!row || !found) continue;
    if (i === timeline.selected || i === timeline.selected + 1) {
      context.globalAlpha = 0.22;
      context.fillStyle = theme.accent;
      const x = timeline.xOf(found.low);
      context.fillRect(x, top, Math.max(1, timeline.xOf(found.high) - x), height);
    }
    const width = 0.5 + 1.25 * found.within;
    const x = timeline.xOf(row[1]) - width / 2;
    context.globalAlpha = 0.15 + 0.6 * found.within;
    context.fillStyle = theme.accent;
    context.fillRect(x, top, width, height);
    context.fillStyle = theme.ink;
    context.fillRect(x, own.top + HEAD, width, own.height - HEAD);
  }
  context.restore();
}

/**
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 * @param {boolean} answered
 */
function segments(timeline, lane, theme, answered) {
  const { context, width, file } = timeline;
  if (!file) return;
  const rows = file.rows;
  const first = firstVisible(rows, timeline.begin);
  const last = Math.min(rows.length, firstVisible(rows, timeline.end) + 1);
  const value = (/** @type {Row} */ row) => (answered ? (file.answer.n_best[row[0]]?.[1] ?? NaN) : file.certainty(row));
  name(context, lane, theme, width);
  const top = lane.top + HEAD;
  const bar = lane.height - HEAD - 3;
  if (last - first > width / 4) {
    columns(context, file, width, timeline.begin, timeline.end, top, bar, value);
    return;
  }
  const drag = answered ? null : timeline.drag;
  for (let i = first; i < last; i++) {
    const row = /** @type {Row} */ (rows[i]);
    let [, start, end] = row;
    if (drag) [start, end] = dragged(drag, rows, i, start, end);
    const x = timeline.xOf(start);
    const w = timeline.xOf(end) - x;
    const index = shade(value(row));
    context.fillStyle = index < 0 ? theme.paper : fillOf(index);
    context.fillRect(x + 0.5, top, Math.max(0.5, w - 1), bar);
    const ink = index < 0 ? theme.ink : inkOn(index);
    if (index < 0) {
      context.strokeStyle = theme.line;
      context.lineWidth = 1;
      context.strokeRect(x + 1, top + 0.5, Math.max(0.5, w - 2), bar - 1);
    }
    if (w > 9) {
      const text = answered ? file.best(row) : row[3];
      context.font = `${answered ? "" : "600 "}13px ${FONT}`;
      context.textBaseline = "middle";
      if (text) fit(context, text, Math.max(x, 0), Math.min(x + w, width), top + (w > 30 ? 16 : 22), ink);
      if (w > 30 && index >= 0) {
        context.font = `10px ${FONT}`;
        const shown = answered ? posterior(value(row)) : file.certaintyText(row);
        const [from, to] = [Math.max(x, 0), Math.min(x + w, width)];
        if (context.measureText(shown).width <= to - from - 4) fit(context, shown, from, to, top + 33, ink); // half a number says nothing
      }
    }
    if (!answered && row[4]) {
      context.fillStyle = ink;
      context.fillRect(x + 3, top + bar - 4, Math.max(1, w - 6), 2);
    }
    if (!answered && file.changed(row) && w > 8) {
      context.beginPath();
      context.moveTo(x + 1, top);
      context.lineTo(x + 8, top);
      context.lineTo(x + 1, top + 7);
      context.fillStyle = theme.accent;
      context.fill();
    }
    if (i === timeline.selected) {
      context.strokeStyle = theme.paper;
      context.lineWidth = 4;
      context.strokeRect(x + 1, top + 1, Math.max(1, w - 2), bar - 2);
      context.strokeStyle = theme.accent;
      context.lineWidth = 2;
      context.strokeRect(x + 1, top + 1, Math.max(1, w - 2), bar - 2);
    }
  }
}

/**
 * Times of a row while a boundary is dragged.
 * @param {{id: number, edge: string, time: number}} drag
 * @param {Row[]} rows
 * @param {number} i
 * @param {number} start
 * @param {number} end
 * @returns {[number, number]}
 */
function dragged(drag, rows, i, start, end) {
  const row = rows[i];
  if (row?.[0] === drag.id) return drag.edge === "start" ? [drag.time, end] : [start, drag.time];
  const after = rows[i + 1];
  const before = rows[i - 1];
  if (after?.[0] === drag.id && drag.edge === "start" && Math.abs(after[1] - end) <= 1e-6) return [start, drag.time];
  if (before?.[0] === drag.id && drag.edge === "end" && Math.abs(before[2] - start) <= 1e-6) return [drag.time, end];
  return [start, end];
}

/**
 * The name of a lane, on a strip above it.
 * @param {CanvasRenderingContext2D} context
 * @param {Lane} lane
 * @param {Theme} theme
 * @param {number} width
 */
function name(context, lane, theme, width) {
  context.fillStyle = theme.line;
  context.fillRect(0, lane.top, width, 1);
  label(context, lane.name.length > 40 ? `${lane.name.slice(0, 39)}…` : lane.name, 6, lane.top + 11, theme.soft, "10px");
}
