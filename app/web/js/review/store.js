// A review as the page knows it: files, segments as they stand, the queue of operations on their way to the service.
import { get, post, Problem } from "../api.js";
import { posterior } from "../i18n.js";

/** @typedef {[id: number, start: number, end: number, label: string | null, reviewed: boolean]} Row */
/** @typedef {{name: string, kind: string, start: number[], end: number[], text: string[]}} Tier */
/** @typedef {{labels: string[], start: number[], end: number[], given: (string | null)[], compared_as: (string | null)[], given_posterior: (number | null)[],
 *   given_support?: (number | null)[], given_rank: (number | null)[], n_best: number[][], skipped: Record<string, string>, tiers: Tier[], boundaries?: {within: (number | null)[], low: (number | null)[], high: (number | null)[]}}} Answer */
/** @typedef {{within: number, low: number, high: number}} Boundary */
/** @typedef {{file: number, id: number}} Reference */

/** One file of a review. */
export class ReviewFile {
  /**
   * @param {any} meta
   * @param {Answer} answer
   * @param {Row[]} rows
   */
  constructor(meta, answer, rows) {
    this.meta = meta;
    this.answer = answer;
    this.rows = rows;
    /** @type {number} */
    this.number = meta.number;
  }

  /** @param {number} id */
  indexOf(id) {
    if (this.rows[id]?.[0] === id) return id;
    return this.rows.findIndex((row) => row[0] === id);
  }

  /** @param {Row} row */
  hasAnswer(row) {
    return (this.answer.n_best[row[0]]?.length ?? 0) > 0;
  }

  /** The label that the model finds likeliest; null where it was not asked. @param {Row} row */
  best(row) {
    const first = this.answer.n_best[row[0]]?.[0];
    return first === undefined ? null : (this.answer.labels[first] ?? null);
  }

  /**
   * Labels with posteriors, the likeliest first.
   * @param {Row} row
   * @returns {{label: string, p: number}[]}
   */
  nBest(row) {
    const flat = this.answer.n_best[row[0]] ?? [];
    const out = [];
    for (let i = 0; i < flat.length; i += 2) out.push({ label: this.answer.labels[flat[i] ?? 0] ?? "", p: flat[i + 1] ?? 0 });
    return out;
  }

  /** The posterior of the label that the segment has now; NaN where the model says nothing of it. @param {Row} row */
  certainty(row) {
    const id = row[0];
    const flat = this.answer.n_best[id];
    if (!flat || flat.length === 0) return NaN;
    if (row[3] === null) return flat[1] ?? NaN;
    if (row[3] === this.answer.given[id]) return this.answer.given_posterior[id] ?? (this.answer.labels.includes(row[3]) ? 0 : NaN);
    for (let i = 0; i < flat.length; i += 2) if (this.answer.labels[flat[i] ?? 0] === row[3]) return flat[i + 1] ?? NaN;
    return this.bounded(row) ? (flat[flat.length - 1] ?? NaN) : NaN;
  }

  /** Whether `certainty` is an upper bound: a label of the model, less likely than those that were kept. @param {Row} row */
  bounded(row) {
    const flat = this.answer.n_best[row[0]] ?? [];
    if (row[3] === null || flat.length === 0 || row[3] === this.answer.given[row[0]]) return false;
    const index = this.answer.labels.indexOf(row[3]);
    return index >= 0 && !flat.some((value, i) => i % 2 === 0 && value === index);
  }

  /** The certainty as text; a small bound needs one sign, not two. @param {Row} row */
  certaintyText(row) {
    const p = this.certainty(row);
    const text = posterior(Number.isNaN(p) ? null : p);
    return this.bounded(row) && !text.startsWith("<") ? `≤ ${text}` : text;
  }

  /**
   * How certain the start of the segment is, where alignment found it and nobody has moved it since.
   * @param {Row | undefined} row
   * @returns {Boundary | null}
   */
  boundary(row) {
    const found = this.answer.boundaries;
    if (!found || !row || row[1] !== this.answer.start[row[0]]) return null;
    const [within, low, high] = [found.within[row[0]], found.low[row[0]], found.high[row[0]]];
    return typeof within === "number" && typeof low === "number" && typeof high === "number" ? { within, low, high } : null;
  }

  /** Whether it came with a label that the model knows, so that there is a measure of that label. @param {number} id */
  knows(id) {
    return typeof this.answer.given_posterior[id] === "number";
  }

  /**
   * How probable the label is with which the segment came, in view of all other labels that came with it; NaN where the model
   * has no support to give.
   * @param {number} id
   */
  support(id) {
    return this.answer.given_support?.[id] ?? NaN;
  }

  /** Whether each label that the model knows has a support. */
  get supported() {
    return this.answer.given_posterior.every((p, id) => p === null || !Number.isNaN(this.support(id)));
  }

  /** Whether its boundaries are others than those that were labelled. @param {Row} row */
  moved(row) {
    const id = row[0];
    return id >= this.answer.start.length || row[1] !== this.answer.start[id] || row[2] !== this.answer.end[id];
  }

  /** Whether nothing in it was labelled when it came: boundaries alone. */
  get blank() {
    return this.answer.given.every((label) => label === null);
  }

  /** Segments of a blank file that still have no label, though the model has one. */
  unlabelled() {
    return this.blank ? this.rows.filter((row) => row[3] === null && !row[4] && this.hasAnswer(row)).length : 0;
  }

  /** @param {Row} row */
  changed(row) {
    return this.moved(row) || row[3] !== (this.answer.given[row[0]] ?? null);
  }
}

/** Events: "change" (segments), "state" (saving, undo), "conflict" (someone else's operations came in). */
export class ReviewStore extends EventTarget {
  /** @param {any} review */
  constructor(review) {
    super();
    this.review = review;
    this.id = /** @type {string} */ (review.id);
    this.path = `reviews/${review.id}`;
    /** @type {Map<number, ReviewFile>} */
    this.files = new Map();
    this.revision = /** @type {number} */ (review.revision);
    this.canUndo = review.can_undo;
    this.canRedo = review.can_redo;
    /** @type {{operation: any, done: (changed: any) => void}[]} */
    this.queue = [];
    this.sending = false;
    /** @type {Problem | null} */
    this.problem = null;
    /** @type {Date | null} */
    this.saved = null;
  }

  /**
   * @param {string} id
   * @param {(done: number, total: number) => void} [progress]
   */
  static async open(id, progress = () => {}) {
    const store = new ReviewStore(await get(`reviews/${encodeURIComponent(id)}`));
    let done = 0;
    const pending = [...store.review.files];
    const work = async () => {
      for (let meta = pending.shift(); meta; meta = pending.shift()) {
        await store.load(meta);
        progress(++done, store.review.files.length);
      }
    };
    await Promise.all([work(), work(), work()]);
    store.files = new Map([...store.files].sort(([a], [b]) => a - b));
    // Files came one after another; what was done meanwhile is in the log.
    await store.catchUp();
    return store;
  }

  /** @param {any} meta */
  async load(meta) {
    const path = `${this.path}/files/${meta.number}`;
    const [answer, state] = await Promise.all([get(`${path}/answer`), get(`${path}/segments`)]);
    this.files.set(meta.number, new ReviewFile(meta, answer, state.segments));
    this.revision = Math.min(this.revision, state.revision);
  }

  /** @param {Reference | null} at */
  row(at) {
    const file = at && this.files.get(at.file);
    const index = file ? file.indexOf(at.id) : -1;
    return file && index >= 0 ? { file, index, row: /** @type {Row} */ (file.rows[index]) } : null;
  }

  /** Labels to choose from: the model's, and those that the files use. */
  labelSet() {
    const labels = new Set();
    for (const file of this.files.values()) {
      for (const label of file.answer.labels) labels.add(label);
      for (const label of file.answer.given) if (label) labels.add(label);
    }
    return /** @type {string[]} */ ([...labels]);
  }

  counts() {
    let segments = 0;
    let reviewed = 0;
    let changed = 0;
    for (const file of this.files.values()) {
      segments += file.rows.length;
      for (const row of file.rows) {
        if (row[4]) reviewed++;
        if (file.changed(row)) changed++;
      }
    }
    return { segments, reviewed, changed };
  }

  /**
   * Send an operation after those that wait; resolves to the log's entry, null where it was refused.
   * @param {any} operation
   * @returns {Promise<any>}
   */
  operate(operation) {
    return new Promise((done) => {
      this.queue.push({ operation, done });
      this.dispatchEvent(new Event("state"));
      void this.send();
    });
  }

  async send() {
    if (this.sending) return;
    this.sending = true;
    let wait = 500;
    while (this.queue.length > 0) {
      const next = /** @type {{operation: any, done: (changed: any) => void}} */ (this.queue[0]);
      try {
        const answer = await post(`${this.path}/operations`, { revision: this.revision, operations: [next.operation] });
        this.queue.shift();
        this.take(answer);
        this.problem = null;
        this.saved = new Date();
        wait = 500;
        next.done(answer.operations[0]);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.transient || error.status === 401) {
          this.problem = error;
          this.dispatchEvent(new Event("state"));
          await new Promise((resume) => setTimeout(resume, wait));
          wait = Math.min(5000, 1.5 * wait);
          // An answer that was lost on its way: the operation may have been carried out.
          if (error.status === 0 && (await this.reconcile(next.operation))) {
            this.queue.shift();
            this.problem = null;
            this.saved = new Date();
            next.done(null);
          }
          continue;
        }
        if (error.type.endsWith("/review-conflict")) {
          await this.catchUp().catch(() => {});
          this.dispatchEvent(new CustomEvent("conflict", { detail: error }));
          if (next.operation.op !== "undo" && next.operation.op !== "redo" && (next.operation.op === "fill" || this.row({ file: next.operation.file, id: next.operation.segment }))) continue;
        }
        this.queue.shift();
        this.problem = error;
        this.dispatchEvent(new CustomEvent("refused", { detail: error }));
        next.done(null);
      }
      this.dispatchEvent(new Event("state"));
    }
    this.sending = false;
    this.dispatchEvent(new Event("state"));
  }

  /**
   * Catch up, and say whether the log has this operation already.
   * @param {any} operation
   */
  async reconcile(operation) {
    try {
      const operations = await this.catchUp();
      return operations.some((/** @type {any} */ one) =>
        one.kind === operation.op && (operation.file === undefined || one.file === operation.file) && (operation.segment === undefined || (one.file === operation.file && one.after.some((/** @type {Row} */ row) => row[0] === operation.segment))));
    } catch {
      return false;
    }
  }

  /** Take in what other windows have done. @returns {Promise<any[]>} */
  async catchUp() {
    const answer = await get(`${this.path}/operations?after=${this.revision}`);
    this.take(answer);
    return answer.operations;
  }

  /** @param {any} answer */
  take(answer) {
    for (const operation of answer.operations) {
      const file = this.files.get(operation.file);
      if (file && operation.number > this.revision) {
        file.rows.splice(operation.position, operation.before.length, ...operation.after);
        this.revision = operation.number;
      } else if (operation.number > this.revision) this.revision = operation.number;
    }
    this.canUndo = answer.can_undo;
    this.canRedo = answer.can_redo;
    if (answer.operations.length > 0) this.dispatchEvent(new CustomEvent("change", { detail: answer.operations }));
  }
}
