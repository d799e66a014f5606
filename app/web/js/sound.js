// The sound of a file: fetched in pieces as they are needed, played to the sample.
import { request } from "./api.js";

const HEADER = 44;
const PIECE = 1 << 16;
const KEPT = 160;

/** Samples of one recording, by pieces of 4 s; the last used are kept (21 MB). */
export class Sound {
  /**
   * @param {string} path
   * @param {number} rate
   * @param {number} duration
   */
  constructor(path, rate, duration) {
    this.path = path;
    this.rate = rate;
    this.length = Math.round(duration * rate);
    /** @type {Map<number, Int16Array | Promise<Int16Array>>} */
    this.pieces = new Map();
    this.onload = () => {};
  }

  /**
   * @param {number} index
   * @returns {Int16Array | Promise<Int16Array>}
   */
  piece(index) {
    const known = this.pieces.get(index);
    if (known) {
      this.pieces.delete(index);
      this.pieces.set(index, known);
      return known;
    }
    const promise = this.#fetch(index);
    this.pieces.set(index, promise);
    for (const old of this.pieces.keys()) {
      if (this.pieces.size <= KEPT) break;
      this.pieces.delete(old);
    }
    return promise;
  }

  /** @param {number} index */
  async #fetch(index) {
    const begin = HEADER + 2 * PIECE * index;
    try {
      const response = await request("GET", this.path, { headers: { Range: `bytes=${begin}-${begin + 2 * PIECE - 1}` } });
      const samples = new Int16Array(await response.arrayBuffer());
      this.pieces.set(index, samples);
      this.onload();
      return samples;
    } catch (error) {
      this.pieces.delete(index);
      throw error;
    }
  }

  /**
   * Samples that are here already; null where a piece of them is not, which is then fetched.
   * @param {number} begin
   * @param {number} end
   */
  peek(begin, end) {
    const out = new Int16Array(Math.max(0, end - begin));
    const last = Math.floor(Math.min(end - 1, this.length - 1) / PIECE);
    let whole = true;
    for (let index = Math.floor(Math.max(0, begin) / PIECE); index <= last; index++) {
      const piece = this.piece(index);
      if (piece instanceof Promise) {
        piece.catch(() => {});
        whole = false;
      } else copy(out, begin, piece, index * PIECE);
    }
    return whole ? out : null;
  }

  /**
   * @param {number} begin
   * @param {number} end
   * @returns {Promise<Int16Array>}
   */
  async read(begin, end) {
    const out = new Int16Array(Math.max(0, end - begin));
    const last = Math.floor(Math.min(end - 1, this.length - 1) / PIECE);
    const indices = [];
    for (let index = Math.floor(Math.max(0, begin) / PIECE); index <= last; index++) indices.push(index);
    await Promise.all(indices.map(async (index) => copy(out, begin, await this.piece(index), index * PIECE)));
    return out;
  }
}

/**
 * @param {Int16Array} out
 * @param {number} begin
 * @param {Int16Array} piece
 * @param {number} at
 */
function copy(out, begin, piece, at) {
  const from = Math.max(begin, at);
  const to = Math.min(begin + out.length, at + piece.length);
  if (to > from) out.set(piece.subarray(from - at, to - at), from - begin);
}

/** Plays stretches of sound; slower speeds keep the pitch. */
export class Player extends EventTarget {
  constructor() {
    super();
    this.element = new Audio();
    this.element.preservesPitch = true;
    this.begin = 0;
    this.end = 0;
    this.speed = 1;
    this.loop = false;
    this.turn = 0;
    this.url = "";
    for (const name of ["ended", "pause", "play"])
      this.element.addEventListener(name, () => this.dispatchEvent(new Event("change")));
  }

  get playing() {
    return !this.element.paused && !this.element.ended && this.url !== "";
  }

  /** The time that is heard now, seconds of the recording; null in silence. */
  get time() {
    return this.playing ? Math.min(this.end, this.begin + this.element.currentTime) : null;
  }

  /**
   * @param {Sound} sound
   * @param {number} begin
   * @param {number} end
   */
  async play(sound, begin, end) {
    const turn = ++this.turn;
    const from = Math.max(0, Math.round(begin * sound.rate));
    const to = Math.min(sound.length, Math.max(from + 160, Math.round(end * sound.rate)));
    const samples = await sound.read(from, to);
    if (turn !== this.turn) return; // something else was asked for meanwhile
    fade(samples);
    this.stop();
    this.begin = from / sound.rate;
    this.end = to / sound.rate;
    this.url = URL.createObjectURL(new Blob([header(samples.length, sound.rate), /** @type {ArrayBuffer} */ (samples.buffer)], { type: "audio/wav" }));
    this.element.src = this.url;
    this.element.loop = this.loop;
    this.element.playbackRate = this.speed;
    await this.element.play().catch((error) => {
      if (error instanceof DOMException && (error.name === "AbortError" || error.name === "NotAllowedError")) return;
      throw error;
    });
  }

  stop() {
    this.element.pause();
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = "";
    this.dispatchEvent(new Event("change"));
  }
}

/** Two milliseconds at both ends, against clicks. @param {Int16Array} samples */
function fade(samples) {
  const length = Math.min(32, samples.length >> 2);
  for (let i = 0; i < length; i++) {
    samples[i] = ((samples[i] ?? 0) * i) / length;
    const j = samples.length - 1 - i;
    samples[j] = ((samples[j] ?? 0) * i) / length;
  }
}

/**
 * @param {number} count
 * @param {number} rate
 */
function header(count, rate) {
  const view = new DataView(new ArrayBuffer(HEADER));
  const text = (/** @type {number} */ at, /** @type {string} */ word) => [...word].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * count, true);
  return view.buffer;
}
