// The lanes of the sound: overview, ruler, waveform, spectrogram.
import { t } from "../i18n.js";
import { columns, FONT, label } from "./draw.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {import("./lanes.js").Lane} Lane */
/** @typedef {import("./lanes.js").Theme} Theme */

/**
 * The whole file: doubt as colour, the view as a frame. Drawn once and kept.
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
export function overview(timeline, lane, theme) {
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

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200];

/**
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {Theme} theme
 */
export function ruler(timeline, lane, theme) {
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
export function wave(timeline, lane, theme) {
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
export function spectrogram(timeline, lane, theme) {
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
