// The timeline: ruler, overview, waveform, spectrogram, tiers and the answer on one canvas, drawn when something changed.
import { t } from "../i18n.js";
import { Tiles } from "./tiles.js";
import * as lanes from "./lanes.js";

/** @typedef {import("./store.js").ReviewFile} ReviewFile */
/** @typedef {import("./store.js").Row} Row */

const LONGEST = 60; // seconds with a spectrogram
const NEAR = 6; // pixels from a boundary at which it is taken hold of

/** Events on the element: "choose" {id, play}, "move" {id, edge, time}, "cursor" {time}. */
export class Timeline extends EventTarget {
  /** @param {import("../sound.js").Player} player */
  constructor(player) {
    super();
    this.player = player;
    this.canvas = /** @type {HTMLCanvasElement} */ (document.createElement("canvas"));
    this.canvas.className = "timeline";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "timeline");
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
    /** @type {ReviewFile | null} */
    this.file = null;
    /** @type {import("../sound.js").Sound | null} */
    this.sound = null;
    /** @type {Int8Array} */
    this.peaks = new Int8Array(0);
    this.begin = 0;
    this.end = 1;
    this.selected = -1;
    /** @type {[number, number] | null} */
    this.range = null;
    /** @type {number | null} */
    this.cursor = null;
    /** @type {{id: number, edge: "start" | "end", time: number, low: number, high: number} | null} */
    this.drag = null;
    /** @type {HTMLCanvasElement | null} what `overview` has drawn, until something in it changes */
    this.overview = null;
    /** @type {import("./lanes.js").Theme | null} */
    this.theme = null;
    this.loudest = 0;
    this.scale = 1;
    this.width = 0;
    this.height = 0;
    this.scheduled = false;
    this.tiles = new Tiles(() => this.draw());
    this.frames = { count: 0, slowest: 0 };
    /** @type {lanes.Lane[]} */
    this.lanes = [];
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    this.player.addEventListener("change", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    this.#listen();
  }

  /**
   * @param {ReviewFile} file
   * @param {import("../sound.js").Sound} sound
   */
  show(file, sound) {
    this.file = file;
    this.sound = sound;
    this.peaks = new Int8Array(0);
    this.selected = -1;
    this.range = this.cursor = null;
    this.canvas.setAttribute("aria-label", t("timeline.label", { name: file.meta.name }));
    this.loudest = 0;
    this.tiles.use(sound, file.meta.duration);
    sound.onload = () => this.draw();
    this.setView(0, Math.min(file.meta.duration, 4));
    this.overview = null;
    this.resize();
  }

  /** @param {Int8Array} peaks */
  setPeaks(peaks) {
    this.peaks = peaks;
    this.loudest = peaks.reduce((most, value) => Math.max(most, Math.abs(value)), 16);
    this.tiles.level(peaks);
    this.overview = null;
    this.draw();
  }

  /** The segments have changed. */
  changed() {
    this.overview = null;
    this.draw();
  }

  recolour() {
    this.theme = null;
    this.tiles.clear();
    this.overview = null;
    this.draw();
  }

  get duration() {
    return this.file?.meta.duration ?? 1;
  }

  /**
   * @param {number} begin
   * @param {number} end
   */
  setView(begin, end) {
    const span = Math.min(this.duration, Math.max(0.02, end - begin));
    this.begin = Math.max(0, Math.min(begin, this.duration - span));
    this.end = this.begin + span;
    this.draw();
  }

  /**
   * @param {number} factor below 1 zooms in
   * @param {number} [at] seconds that stay where they are
   */
  zoom(factor, at) {
    const row = this.file?.rows[this.selected];
    const middle = at ?? (row && row[1] < this.end && row[2] > this.begin ? (row[1] + row[2]) / 2 : (this.begin + this.end) / 2);
    const span = Math.min(this.duration, Math.max(0.02, (this.end - this.begin) * factor));
    const share = (middle - this.begin) / (this.end - this.begin);
    this.setView(middle - share * span, middle + (1 - share) * span);
  }

  /** @param {number} seconds */
  pan(seconds) {
    this.setView(this.begin + seconds, this.end + seconds);
  }

  /**
   * Select a segment by its index and bring it into view.
   * @param {number} index
   */
  select(index) {
    this.selected = index;
    this.range = null;
    this.cursor = null;
    const row = this.file?.rows[index];
    if (row) {
      const span = this.end - this.begin;
      const length = row[2] - row[1];
      if (span > 40 * Math.max(length, 0.05) || span < 1.5 * length) {
        const wide = Math.max(1.6, 6 * length);
        this.setView((row[1] + row[2] - wide) / 2, (row[1] + row[2] + wide) / 2);
      } else if (row[1] < this.begin + 0.1 * span || row[2] > this.end - 0.1 * span) {
        this.setView((row[1] + row[2] - span) / 2, (row[1] + row[2] + span) / 2);
      }
    }
    this.draw();
  }

  /** @param {number} x CSS pixels */
  timeAt(x) {
    return this.begin + (x / this.width) * (this.end - this.begin);
  }

  /** @param {number} time */
  xOf(time) {
    return ((time - this.begin) / (this.end - this.begin)) * this.width;
  }

  resize() {
    if (this.file) {
      const room = this.canvas.parentElement?.clientHeight ?? 0;
      this.lanes = lanes.lanesOf(this.file, this.canvas.clientWidth > 720 ? room : 0);
      this.canvas.style.height = `${lanes.heightOf(this.lanes)}px`;
    }
    const box = this.canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    if (box.width === 0) return;
    this.width = box.width;
    this.height = box.height;
    this.scale = scale;
    this.canvas.width = Math.round(box.width * scale);
    this.canvas.height = Math.round(box.height * scale);
    this.overview = null;
    this.draw();
  }

  draw() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      if (!this.file || this.width === 0) return;
      const begun = performance.now();
      lanes.paint(this);
      this.frames.count++;
      this.frames.slowest = Math.max(this.frames.slowest, performance.now() - begun);
      if (this.player.playing) this.draw();
    });
  }

  get spectrogramVisible() {
    return this.end - this.begin <= LONGEST;
  }

  /**
   * The boundary near x in the lane under review.
   * @param {number} x
   */
  #boundaryAt(x) {
    const rows = this.file?.rows ?? [];
    let best = null;
    let distance = NEAR;
    for (let i = lanes.firstVisible(rows, this.begin); i < rows.length; i++) {
      const row = /** @type {Row} */ (rows[i]);
      if (row[1] > this.end) break;
      for (const edge of /** @type {const} */ (["start", "end"])) {
        const far = Math.abs(this.xOf(edge === "start" ? row[1] : row[2]) - x);
        // A boundary that two share belongs to the later one's start only where nothing is nearer.
        if (far < distance) {
          distance = far;
          best = { index: i, row, edge };
        }
      }
    }
    return best;
  }

  #listen() {
    const canvas = this.canvas;
    /** @type {Map<number, {x: number, y: number}>} */
    const pointers = new Map();
    /** @type {{kind: string, x: number, begin: number, end: number, span?: number, lane?: lanes.Lane} | null} */
    let gesture = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      const lane = lanes.laneAt(this.lanes, event.offsetY);
      gesture = { kind: "press", x: event.offsetX, begin: this.begin, end: this.end, ...(lane ? { lane } : {}) };
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        gesture = { kind: "pinch", x: ((a?.x ?? 0) + (b?.x ?? 0)) / 2, begin: this.begin, end: this.end, span: Math.abs((a?.x ?? 0) - (b?.x ?? 0)) };
      } else if (lane?.kind === "overview") {
        gesture.kind = "overview";
        this.#jump(event.offsetX);
      } else if (lane?.kind === "review") {
        const boundary = this.#boundaryAt(event.offsetX);
        if (boundary) {
          const [low, high] = this.#room(boundary.index, boundary.edge);
          const time = boundary.edge === "start" ? boundary.row[1] : boundary.row[2];
          this.drag = { id: boundary.row[0], edge: boundary.edge, time, low, high };
          gesture.kind = "boundary";
        }
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      const lane = lanes.laneAt(this.lanes, event.offsetY);
      if (!gesture) {
        canvas.style.cursor = lane?.kind === "review" && this.#boundaryAt(event.offsetX) ? "ew-resize" : lane?.kind === "wave" || lane?.kind === "spectrogram" ? "text" : "default";
        return;
      }
      pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      if (gesture.kind === "pinch") {
        const [a, b] = [...pointers.values()];
        const span = Math.max(10, Math.abs((a?.x ?? 0) - (b?.x ?? 0)));
        const length = ((gesture.end - gesture.begin) * (gesture.span ?? span)) / span;
        const middle = gesture.begin + (gesture.x / this.width) * (gesture.end - gesture.begin);
        this.setView(middle - (gesture.x / this.width) * length, middle + (1 - gesture.x / this.width) * length);
      } else if (gesture.kind === "boundary" && this.drag) {
        this.drag.time = Math.min(this.drag.high, Math.max(this.drag.low, this.timeAt(event.offsetX)));
        this.draw();
      } else if (gesture.kind === "overview") this.#jump(event.offsetX);
      else if (Math.abs(event.offsetX - gesture.x) > 3 || gesture.kind !== "press") {
        if (event.pointerType === "touch" || gesture.lane?.kind === "ruler") {
          gesture.kind = "pan";
          const shift = ((gesture.x - event.offsetX) / this.width) * (gesture.end - gesture.begin);
          this.setView(gesture.begin + shift, gesture.end + shift);
        } else {
          gesture.kind = "range";
          const from = gesture.begin + (gesture.x / this.width) * (gesture.end - gesture.begin);
          const to = this.timeAt(event.offsetX);
          this.range = [Math.max(0, Math.min(from, to)), Math.min(this.duration, Math.max(from, to))];
          this.draw();
        }
      }
    });
    const finish = (/** @type {PointerEvent} */ event) => {
      pointers.delete(event.pointerId);
      const done = gesture;
      gesture = pointers.size > 0 ? gesture : null;
      if (!done || event.type === "pointercancel") {
        this.drag = null;
        this.draw();
        return;
      }
      if (done.kind === "boundary" && this.drag) {
        const { id, edge, time } = this.drag;
        if (Math.abs(event.offsetX - done.x) > 1) this.#tell("move", { id, edge, time });
        else this.drag = null;
        this.draw();
      } else if (done.kind === "range") this.#tell("range", {});
      else if (done.kind === "press") this.#click(event.offsetX, done.lane);
    };
    canvas.addEventListener("pointerup", finish);
    canvas.addEventListener("pointercancel", finish);
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 16 : 1;
        if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY * unit * 0.004), this.timeAt(event.offsetX));
        else this.pan((((event.deltaX || event.deltaY) * unit) / this.width) * (this.end - this.begin));
      },
      { passive: false },
    );
  }

  /** @param {number} x */
  #jump(x) {
    const middle = (x / this.width) * this.duration;
    const span = this.end - this.begin;
    this.setView(middle - span / 2, middle + span / 2);
  }

  /**
   * @param {number} x
   * @param {lanes.Lane | undefined} lane
   */
  #click(x, lane) {
    const time = this.timeAt(x);
    if (lane?.kind === "tier" && lane.tier) {
      const at = lanes.entryAt(lane.tier, time);
      if (at >= 0) {
        this.range = [lane.tier.start[at] ?? 0, lane.tier.end[at] ?? 0];
        this.#tell("range", { play: true });
      }
      return this.draw();
    }
    if (lane?.kind === "review" || lane?.kind === "answer") {
      const rows = this.file?.rows ?? [];
      const index = lanes.firstVisible(rows, time);
      const row = rows[index];
      if (row && row[1] <= time) this.#tell("choose", { id: row[0], play: true });
      return undefined;
    }
    this.range = null;
    this.cursor = Math.min(this.duration, Math.max(0, time));
    this.#tell("cursor", { time: this.cursor });
    return this.draw();
  }

  /**
   * How far a boundary can go, as the service has it too.
   * @param {number} index
   * @param {"start" | "end"} edge
   * @returns {[number, number]}
   */
  #room(index, edge) {
    return lanes.roomOf(this.file?.rows ?? [], index, edge, this.duration);
  }

  /**
   * @param {string} name
   * @param {any} detail
   */
  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
