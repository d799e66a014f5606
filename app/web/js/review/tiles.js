// Spectrogram tiles by level of zoom, drawn in a worker and kept while there is room.

const COLUMNS = 512;
const KEPT = 220;
const HALF_WINDOW = 80;

export class Tiles {
  /** @param {() => void} arrived */
  constructor(arrived) {
    this.arrived = arrived;
    /** @type {Map<string, ImageBitmap | null>} */
    this.bitmaps = new Map();
    /** @type {Worker | null} */
    this.worker = null;
    /** @type {import("../sound.js").Sound | null} */
    this.sound = null;
    this.turn = 0;
    this.pending = 0;
    this.top = 120;
    /** @type {[[number, number, number], [number, number, number]]} */
    this.colours = [[255, 255, 255], [20, 24, 32]];
  }

  /**
   * @param {import("../sound.js").Sound} sound
   * @param {number} duration
   */
  use(sound, duration) {
    this.sound = sound;
    this.duration = duration;
    this.clear();
  }

  clear() {
    this.turn++;
    this.pending = 0;
    for (const bitmap of this.bitmaps.values()) bitmap?.close();
    this.bitmaps.clear();
  }

  /** Full ink from the loudness of the recording. @param {Int8Array} peaks */
  level(peaks) {
    let loudest = 1;
    for (const value of peaks) loudest = Math.max(loudest, Math.abs(value));
    const top = 20 * Math.log10(loudest * 256) + 14;
    if (Math.abs(top - this.top) > 0.1) {
      this.top = top;
      this.clear();
    }
  }

  /**
   * Paint what is there of a stretch of time, and ask for the rest.
   * @param {CanvasRenderingContext2D} context
   * @param {number} begin
   * @param {number} end
   * @param {number} width device pixels a canvas is wide
   * @param {{x: number, y: number, width: number, height: number}} box in CSS pixels
   */
  paint(context, begin, end, width, box) {
    const sound = this.sound;
    if (!sound) return;
    // Hops are powers of two, so that zooming meets tiles that are there already.
    const level = Math.max(2, Math.round(Math.log2(((end - begin) * sound.rate) / width)));
    const span = (COLUMNS * 2 ** level) / sound.rate;
    context.imageSmoothingEnabled = true;
    const middle = (begin + end) / 2;
    const wanted = [];
    for (let i = Math.max(0, Math.floor(begin / span)); i * span < Math.min(end, this.duration ?? 0); i++) wanted.push(i);
    for (const i of wanted) {
      const key = `${level}:${i}`;
      const bitmap = this.bitmaps.get(key);
      if (bitmap) {
        this.bitmaps.delete(key);
        this.bitmaps.set(key, bitmap);
        this.#place(context, bitmap, i * span, span, begin, end, box);
      } else this.#substitute(context, level, i, begin, end, box);
    }
    wanted.sort((a, b) => Math.abs((a + 0.5) * span - middle) - Math.abs((b + 0.5) * span - middle));
    for (const i of wanted) if (!this.bitmaps.has(`${level}:${i}`)) this.#ask(level, i);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {ImageBitmap} bitmap
   * @param {number} at
   * @param {number} span
   * @param {number} begin
   * @param {number} end
   * @param {{x: number, y: number, width: number, height: number}} box
   */
  #place(context, bitmap, at, span, begin, end, box) {
    const scale = box.width / (end - begin);
    context.drawImage(bitmap, box.x + (at - begin) * scale, box.y, span * scale, box.height);
  }

  /**
   * A coarser or finer tile of the same time stands in until the right one is there.
   * @param {CanvasRenderingContext2D} context
   * @param {number} level
   * @param {number} index
   * @param {number} begin
   * @param {number} end
   * @param {{x: number, y: number, width: number, height: number}} box
   */
  #substitute(context, level, index, begin, end, box) {
    const rate = this.sound?.rate ?? 1;
    for (let up = 1; up <= 6; up++) {
      const bitmap = this.bitmaps.get(`${level + up}:${index >> up}`);
      if (!bitmap) continue;
      const span = (COLUMNS * 2 ** (level + up)) / rate;
      context.save();
      context.beginPath();
      const own = (COLUMNS * 2 ** level) / rate;
      const scale = box.width / (end - begin);
      context.rect(box.x + (index * own - begin) * scale, box.y, own * scale, box.height);
      context.clip();
      this.#place(context, bitmap, (index >> up) * span, span, begin, end, box);
      context.restore();
      return;
    }
    for (let half = 0; half < 2; half++) {
      const bitmap = this.bitmaps.get(`${level - 1}:${2 * index + half}`);
      const span = (COLUMNS * 2 ** (level - 1)) / rate;
      if (bitmap) this.#place(context, bitmap, (2 * index + half) * span, span, begin, end, box);
    }
  }

  /**
   * @param {number} level
   * @param {number} index
   */
  #ask(level, index) {
    const sound = this.sound;
    if (!sound || this.pending >= 4) return;
    const hop = 2 ** level;
    const from = index * COLUMNS * hop - HALF_WINDOW;
    const samples = sound.peek(from, from + COLUMNS * hop + 2 * HALF_WINDOW);
    if (!samples) return; // it is on its way, and the sound tells when it is there
    const key = `${level}:${index}`;
    this.bitmaps.set(key, null);
    this.pending++;
    this.#workerOf().postMessage(
      { key: `${this.turn} ${key}`, samples, columns: COLUMNS, hop, top: this.top, paper: this.colours[0], ink: this.colours[1] },
      [samples.buffer],
    );
  }

  #workerOf() {
    if (!this.worker) {
      this.worker = new Worker(new URL("../spectrogram-worker.js", import.meta.url));
      this.worker.onmessage = (message) => {
        const [turn, key] = message.data.key.split(" ");
        if (Number(turn) !== this.turn) return message.data.bitmap.close();
        this.pending--;
        this.bitmaps.set(key, message.data.bitmap);
        for (const [old, bitmap] of this.bitmaps) {
          if (this.bitmaps.size <= KEPT) break;
          bitmap?.close();
          this.bitmaps.delete(old);
        }
        return this.arrived();
      };
    }
    return this.worker;
  }
}
