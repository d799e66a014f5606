// What the timeline draws, lane by lane. Pure functions of the timeline's state.
import { fillOf, inkOn, shade } from "../colors.js";
import { posterior, t } from "../i18n.js";

/** @typedef {import("./store.js").Row} Row */
/** @typedef {import("./store.js").Tier} Tier */
/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {{paper: string, ink: string, soft: string, line: string, accent: string, wave: string, band: string}} Theme */
/** @typedef {{kind: "overview" | "ruler" | "wave" | "spectrogram" | "tier" | "review" | "answer", top: number, height: number,
 *   name: string, tier?: Tier}} Lane */

const FONT = '"Noto Sans Phones", "Noto Sans", "Charis SIL", "Doulos SIL", system-ui, sans-serif';
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
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {string} colour
 * @param {string} [font]
 */
function label(context, text, x, y, colour, font = "11px") {
  context.font = `${font} ${FONT}`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

/**
 * The whole file: doubt as colour, the view as a frame. Drawn once and kept.
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
function overview(timeline, lane, theme) {
  const { context, width, file } = timeline;
  if (!file) return;
  const scale = timeline.scale;
  if (!timeline.overview) {
    const kept = document.createElement("canvas");
    kept.width = Math.max(1, Math.round(width * scale));
    kept.height = Math.round(lane.height * scale);
    const own = /** @type {CanvasRenderingContext2D} */ (kept.getContext("2d"));
    own.scale(scale, scale);
    own.fillStyle = theme.paper;
    own.fillRect(0, 0, width, lane.height);
    own.fillStyle = theme.wave;
    const per = (timeline.peaks.length / 2 / width) | 0;
    for (let x = 0; x < width && timeline.peaks.length > 0; x++) {
      const from = Math.floor((x * timeline.peaks.length) / 2 / width);
      let low = 0;
      let high = 0;
      for (let i = from; i <= from + per; i++) {
        low = Math.min(low, timeline.peaks[2 * i] ?? 0);
        high = Math.max(high, timeline.peaks[2 * i + 1] ?? 0);
      }
      own.fillRect(x, 11 - (high / 128) * 10, 1, Math.max(1, ((high - low) / 128) * 10));
    }
    columns(own, file, width, 0, timeline.duration, 23, 8);
    timeline.overview = kept;
  }
  context.drawImage(timeline.overview, 0, lane.top, width, lane.height);
  const x = (timeline.begin / timeline.duration) * width;
  const w = Math.max(3, ((timeline.end - timeline.begin) / timeline.duration) * width);
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.strokeRect(x + 0.75, lane.top + 1.75, w - 1.5, lane.height - 5.5);
  context.fillStyle = theme.line;
  context.fillRect(0, lane.top + lane.height - 1, width, 1);
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
function columns(context, file, width, begin, end, top, height, value = (row) => file.certainty(row)) {
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

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200];

/**
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
function ruler(timeline, lane, theme) {
  const { context, width } = timeline;
  const span = timeline.end - timeline.begin;
  const step = STEPS.find((one) => (one / span) * width >= 72) ?? 1200;
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  for (let k = Math.ceil(timeline.begin / step); k * step <= timeline.end; k++) {
    const time = k * step;
    const x = timeline.xOf(time);
    context.fillStyle = theme.line;
    context.fillRect(x, lane.top + 12, 1, 10);
    const minutes = timeline.duration >= 120;
    const text = minutes ? `${Math.floor(time / 60)}:${(time % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0")}` : `${time.toFixed(digits)} s`;
    if (x < width - 30) label(context, text, x + 4, lane.top + 15, theme.soft);
  }
}

/**
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
function wave(timeline, lane, theme) {
  const { context, width, sound, peaks } = timeline;
  const middle = lane.top + lane.height / 2;
  const size = lane.height / 2 - 3;
  const span = timeline.end - timeline.begin;
  const loudest = timeline.loudest || 64;
  context.fillStyle = theme.line;
  context.fillRect(0, middle, width, 1);
  context.fillStyle = theme.wave;
  const rate = sound?.rate ?? 16000;
  const from = Math.floor(timeline.begin * rate);
  const samples = span <= 10 ? sound?.peek(from, Math.ceil(timeline.end * rate) + 1) : null;
  if (samples) {
    const gain = size / (loudest * 256);
    const per = (span * rate) / width;
    if (per < 1.5) {
      context.strokeStyle = theme.wave;
      context.lineWidth = 1.25;
      context.beginPath();
      samples.forEach((sample, i) => context.lineTo(timeline.xOf((from + i) / rate), middle - sample * gain));
      context.stroke();
      return;
    }
    for (let x = 0; x < width; x++) {
      let low = 32767;
      let high = -32768;
      const last = Math.min(samples.length - 1, ((x + 1) * per) | 0);
      for (let i = (x * per) | 0; i <= last; i++) {
        const sample = /** @type {number} */ (samples[i]);
        if (sample < low) low = sample;
        if (sample > high) high = sample;
      }
      context.fillRect(x, middle - high * gain, 1, Math.max(1, (high - low) * gain));
    }
    return;
  }
  const perSecond = timeline.file?.meta.peaks_per_second ?? 100;
  const gain = size / loudest;
  const count = peaks.length / 2;
  const step = (span * perSecond) / width;
  for (let x = 0; x < width; x++) {
    const first = Math.floor(timeline.begin * perSecond + x * step);
    const last = Math.min(count - 1, Math.max(first, Math.floor(timeline.begin * perSecond + (x + 1) * step) - 1));
    let low = 127;
    let high = -128;
    for (let i = first; i <= last; i++) {
      low = Math.min(low, /** @type {number} */ (peaks[2 * i]));
      high = Math.max(high, /** @type {number} */ (peaks[2 * i + 1]));
    }
    if (high >= low) context.fillRect(x, middle - high * gain, 1, Math.max(1, (high - low) * gain));
  }
}

/**
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
function spectrogram(timeline, lane, theme) {
  const { context, width } = timeline;
  const box = { x: 0, y: lane.top, width, height: lane.height };
  context.save();
  context.beginPath();
  context.rect(0, lane.top, width, lane.height);
  context.clip();
  const paper = timeline.tiles.colours[0];
  context.fillStyle = `rgb(${paper.join(",")})`;
  context.fillRect(0, lane.top, width, lane.height);
  if (timeline.spectrogramVisible) {
    timeline.tiles.paint(context, timeline.begin, timeline.end, width * timeline.scale, box);
    for (const khz of [2, 4, 6]) {
      const y = lane.top + lane.height * (1 - (khz * 2000) / (timeline.sound?.rate ?? 16000));
      context.fillStyle = theme.line;
      context.globalAlpha = 0.6;
      context.fillRect(0, y, width, 1);
      context.globalAlpha = 1;
      context.font = `10px ${FONT}`;
      context.lineWidth = 3;
      context.strokeStyle = `rgb(${paper.join(",")})`;
      context.lineJoin = "round";
      context.textBaseline = "alphabetic";
      context.textAlign = "left";
      context.strokeText(`${khz} kHz`, 6, y - 3);
      label(context, `${khz} kHz`, 6, y - 3, theme.ink, "10px");
    }
  } else {
    context.textAlign = "center";
    context.font = `13px ${FONT}`;
    context.fillStyle = theme.soft;
    context.textBaseline = "middle";
    context.fillText(t("timeline.zoom"), width / 2, lane.top + lane.height / 2);
  }
  context.restore();
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
    const width = 0.5 + 2 * found.within;
    const x = timeline.xOf(row[1]) - width / 2;
    context.globalAlpha = 0.2 + 0.55 * found.within;
    context.fillStyle = theme.ink;
    context.fillRect(x, top, width, height);
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
        fit(context, answered ? posterior(value(row)) : file.certaintyText(row), Math.max(x, 0), Math.min(x + w, width), top + 33, ink);
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
 * Text in the middle of a stretch, cut where it does not fit.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} from
 * @param {number} to
 * @param {number} y
 * @param {string} colour
 */
function fit(context, text, from, to, y, colour) {
  const room = to - from - 4;
  if (room < 5) return;
  context.fillStyle = colour;
  context.textAlign = "center";
  let shown = text.length > 40 ? `${text.slice(0, 39)}…` : text;
  while (shown.length > 1 && context.measureText(shown).width > room) shown = shown.length > 2 ? `${shown.slice(0, -2)}…` : shown.slice(0, 1);
  if (shown === "…" || context.measureText(shown).width > room + 3) return;
  context.fillText(shown, (from + to) / 2, y);
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
