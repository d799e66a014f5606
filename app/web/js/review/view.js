// The review screen: list, timeline and inspector around one store; what keys and buttons do.
import { describeError, download, request } from "../api.js";
import { append, fill, h } from "../dom.js";
import { posterior, t } from "../i18n.js";
import { Player, Sound } from "../sound.js";
import { paintFoot, paintTools, SPEEDS } from "./bars.js";
import { History } from "./history.js";
import { Inspector } from "./inspector.js";
import { trainReview } from "../train/next.js";
import { bindKeys, helpPanel } from "./keys.js";
import { LabelBox } from "./labelbox.js";
import { DoubtfulList, stem } from "./list.js";
import { ReviewStore } from "./store.js";
import { Timeline } from "./timeline.js";

/** @typedef {import("./store.js").Reference} Reference */

const NUDGE = 0.005;
const CONTEXT = 0.25;

export class ReviewView {
  /** @param {ReviewStore} store */
  constructor(store) {
    this.store = store;
    this.player = new Player();
    this.timeline = new Timeline(this.player);
    this.list = new DoubtfulList(store);
    this.inspector = new Inspector();
    this.box = new LabelBox((label) => this.relabel(label, true));
    /** @type {Map<number, Sound>} */
    this.sounds = new Map();
    /** @type {Reference | null} */
    this.selected = null;
    this.shown = -1;
    this.autoplay = true;
    this.message = "";
    this.leaving = false;
    /** @type {"start" | "end"} */
    this.edge = "end";
    this.abort = new AbortController();
    this.foot = h("footer", { class: "foot" });
    this.tools = h("div", { class: "tools", role: "toolbar", "aria-label": t("timeline.label", { name: "" }) });
    this.title = h("h1", { class: "cut" });
    this.help = helpPanel(() => this.toggleHelp(false));
    this.history = new History(this);
    this.element = h("div", { class: "review" }, this.list.element,
      h("section", { class: "stage", "aria-label": "Timeline" }, h("div", { class: "stage-head" }, this.title, this.tools), h("div", { class: "stage-body" }, this.timeline.canvas), this.box.element, h("p", { class: "visually-hidden", id: "timeline-help" }, t("timeline.help"))),
      this.inspector.element, this.foot, this.help, this.history.element);
    this.timeline.observer.observe(/** @type {Element} */ (this.timeline.canvas.parentElement));
    this.timeline.canvas.setAttribute("aria-describedby", "timeline-help");
    this.#listen();
    paintTools(this);
    paintFoot(this);
    bindKeys(this);
    const first = this.list.nextDoubtful(null) ?? firstOf(store);
    if (first) this.select(first, false);
    queueMicrotask(() => this.timeline.canvas.focus({ preventScroll: true }));
  }

  #listen() {
    const { store, timeline, list, inspector, player } = this;
    const signal = this.abort.signal;
    store.addEventListener("change", (event) => this.#changed(/** @type {CustomEvent} */ (event).detail), { signal });
    store.addEventListener("state", () => paintFoot(this), { signal });
    store.addEventListener("refused", (event) => this.say(/** @type {CustomEvent} */ (event).detail.message, true), { signal });
    store.addEventListener("conflict", () => this.say(t("foot.conflict")), { signal });
    list.addEventListener("fill", () => void this.#fill(), { signal });
    list.addEventListener("choose", (event) => this.select(/** @type {CustomEvent} */ (event).detail, true), { signal });
    timeline.addEventListener("choose", (event) => this.select({ file: this.shown, id: /** @type {CustomEvent} */ (event).detail.id }, true, true), { signal });
    timeline.addEventListener("range", (event) => /** @type {CustomEvent} */ (event).detail.play && this.play(), { signal });
    timeline.addEventListener("move", (event) => {
      const { id, edge, time } = /** @type {CustomEvent} */ (event).detail;
      void this.act({ op: "move", file: this.shown, segment: id, edge, time: round(time) }).then(() => {
        timeline.drag = null;
        timeline.draw();
      });
    }, { signal });
    inspector.addEventListener("act", (event) => this.do(/** @type {CustomEvent} */ (event).detail.name, /** @type {CustomEvent} */ (event).detail.value), { signal });
    player.addEventListener("change", () => paintTools(this), { signal });
    window.addEventListener("focus", () => void (store.queue.length === 0 && store.catchUp().catch(() => {})), { signal });
    window.addEventListener("beforeunload", (event) => store.queue.length > 0 && event.preventDefault(), { signal });
  }

  /** Begin with the most doubtful segment of a file, and stay with that file. @param {number} number */
  openFile(number) {
    this.list.filters.file = this.store.files.size > 1 && this.store.files.has(number) ? String(number) : "";
    this.list.refresh();
    const first = this.list.nextDoubtful(null) ?? firstOf(this.store, number);
    if (first) this.select(first, false);
  }

  close() {
    this.abort.abort();
    this.player.stop();
    this.timeline.tiles.clear();
    this.timeline.tiles.worker?.terminate();
  }

  /** What is under the cursor of the keyboard. */
  get current() {
    return this.store.row(this.selected);
  }

  /** @param {number} number */
  soundOf(number) {
    const file = this.store.files.get(number);
    let sound = this.sounds.get(number);
    if (!sound && file) {
      sound = new Sound(`${this.store.path}/files/${number}/sound`, file.meta.sample_rate, file.meta.duration);
      if (this.sounds.size > 8) this.sounds.delete(/** @type {number} */ (this.sounds.keys().next().value));
      this.sounds.set(number, sound);
    }
    return sound;
  }

  /**
   * @param {Reference} reference
   * @param {boolean} play
   * @param {boolean} [stay] leave the view of the timeline where it is
   */
  select(reference, play, stay = false) {
    const found = this.store.row(reference);
    if (!found) return;
    this.selected = { file: reference.file, id: reference.id };
    if (this.shown !== reference.file) this.#showFile(found.file);
    const [begin, end] = [this.timeline.begin, this.timeline.end];
    this.timeline.select(found.index);
    if (stay) this.timeline.setView(begin, end);
    this.inspector.show(found);
    this.list.mark(reference);
    this.#announce(found);
    if (play && this.autoplay) void this.play();
  }

  /** @param {import("./store.js").ReviewFile} file */
  #showFile(file) {
    this.shown = file.number;
    const sound = /** @type {Sound} */ (this.soundOf(file.number));
    this.timeline.show(file, sound);
    this.title.textContent = stem(file.meta.name);
    this.title.title = file.meta.name;
    request("GET", `${this.store.path}/files/${file.number}/peaks`)
      .then((response) => response.arrayBuffer())
      .then((buffer) => this.shown === file.number && this.timeline.setPeaks(new Int8Array(buffer)))
      .catch((error) => this.say(error.message, true));
  }

  /** @param {{file: import("./store.js").ReviewFile, row: import("./store.js").Row}} found */
  #announce({ file, row }) {
    const p = file.certainty(row);
    const live = document.getElementById("announcer");
    if (live) live.textContent = t("inspector.announce", { label: row[3] ?? t("inspector.blank"), p: posterior(Number.isNaN(p) ? null : p), duration: `${Math.round(1000 * (row[2] - row[1]))} ms`, answer: file.best(row) ?? "–" });
  }

  /**
   * The stretch that play is about: what is marked, else the segment.
   * @param {boolean} [context]
   */
  async play(context = false) {
    const found = this.current;
    const sound = this.soundOf(this.shown);
    if (!sound) return;
    const range = this.timeline.range ?? (found && found.file.number === this.shown ? [found.row[1], found.row[2]] : null);
    if (!range) return;
    const around = context ? CONTEXT : 0;
    await this.#listenTo(Math.max(0, (range[0] ?? 0) - around), (range[1] ?? 0) + around);
  }

  /** From the cursor, or from the segment, to the end of the view; or silence. */
  async playOn() {
    if (this.player.playing) return this.player.stop();
    const from = this.timeline.cursor ?? this.current?.row[1] ?? this.timeline.begin;
    return this.#listenTo(from, Math.min(this.timeline.duration, Math.max(this.timeline.end, from + 2)));
  }

  /**
   * @param {number} begin
   * @param {number} end
   */
  async #listenTo(begin, end) {
    try {
      await this.player.play(/** @type {Sound} */ (this.soundOf(this.shown)), begin, end);
      this.timeline.draw();
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), true);
    }
  }

  /** @param {any} operation */
  async act(operation) {
    this.message = "";
    return this.store.operate(operation);
  }

  /**
   * What a key or a button asks for.
   * @param {string} name
   * @param {any} [value]
   */
  do(name, value) {
    const found = this.current;
    const target = this.selected && found ? { file: this.selected.file, segment: this.selected.id } : null;
    switch (name) {
      case "play": return void this.play(false);
      case "context": return void this.play(true);
      case "stop": return this.player.stop();
      case "on": return void this.playOn();
      case "step": return this.#step(value);
      case "doubtful": return this.list.move(value);
      case "zoom": return this.timeline.zoom(value);
      case "whole": return this.timeline.setView(0, this.timeline.duration);
      case "undo": return void (this.store.canUndo && this.back("undo"));
      case "redo": return void (this.store.canRedo && this.back("redo"));
      case "history": return this.history.toggle();
      case "loop":
        this.player.loop = !this.player.loop;
        this.player.element.loop = this.player.loop;
        return paintTools(this);
      case "slower": {
        const at = SPEEDS.indexOf(this.player.speed);
        return this.setSpeed(SPEEDS[(at + 1) % SPEEDS.length] ?? 1);
      }
      case "help": return this.toggleHelp(this.help.hidden);
    }
    if (!target || !found) return undefined;
    switch (name) {
      case "accept": {
        const best = found.row[3] === null && found.file.blank ? found.file.best(found.row) : null;
        if (best !== null) return this.relabel(best, true); // where nothing was labelled, no label is nothing to accept
        void this.act({ op: "accept", ...target });
        return this.#next();
      }
      case "answer": {
        const best = found.file.best(found.row);
        return best === null ? undefined : this.relabel(best, true);
      }
      case "label": return this.relabel(value, false);
      case "nth": {
        const best = found.file.nBest(found.row)[value];
        return best && this.relabel(best.label, true);
      }
      case "box": return this.box.show(value ?? "", this.store.labelSet());
      case "split": {
        const cursor = this.timeline.cursor;
        const inside = cursor !== null && cursor > found.row[1] && cursor < found.row[2];
        return void this.act({ op: "split", ...target, time: round(inside ? cursor : (found.row[1] + found.row[2]) / 2) });
      }
      case "merge": return void this.act({ op: "merge", ...target });
      case "nudge": return void this.#nudge(value);
    }
    return undefined;
  }

  /**
   * @param {string} label
   * @param {boolean} onward
   */
  relabel(label, onward) {
    if (!this.selected || !this.current) return;
    void this.act({ op: "label", file: this.selected.file, segment: this.selected.id, label });
    if (onward) this.#next();
  }

  /** Every segment of files without labels gets the model's, to be checked as any. */
  async #fill() {
    for (const file of this.store.files.values()) if (file.unlabelled() > 0) await this.act({ op: "fill", file: file.number });
  }

  #next() {
    const next = this.list.nextDoubtful(this.selected);
    if (next) this.select(next, true);
    else this.say(t("foot.finished"));
  }

  /** @param {number} step */
  #step(step) {
    const file = this.store.files.get(this.shown);
    const row = file?.rows[Math.min(file.rows.length - 1, Math.max(0, this.timeline.selected + step))];
    if (file && row) this.select({ file: file.number, id: row[0] }, true);
  }

  /** The boundary nearer to the cursor, else the start for a step back and the end for a step on. @param {number} direction */
  async #nudge(direction) {
    const found = this.current;
    if (!found) return;
    const [id, start, end] = found.row;
    const cursor = this.timeline.cursor ?? this.player.time;
    const edge = cursor !== null ? (Math.abs(cursor - start) <= Math.abs(cursor - end) ? "start" : "end") : this.edge;
    const time = round((edge === "start" ? start : end) + direction * NUDGE);
    await this.act({ op: "move", file: found.file.number, segment: id, edge, time });
  }

  /** Undo or redo; null where that was refused. @param {"undo" | "redo"} op */
  async back(op) {
    const done = await this.act({ op });
    const first = done?.after[0] ?? done?.before[0];
    if (first) this.select({ file: done.file, id: first[0] }, false);
    return done;
  }

  /** @param {any[]} operations */
  #changed(operations) {
    if (this.selected && !this.store.row(this.selected)) {
      const last = operations[operations.length - 1];
      if (last.after[0]) this.selected = { file: last.file, id: last.after[0][0] };
    }
    const found = this.current;
    if (found && found.file.number === this.shown) this.timeline.selected = found.index;
    this.inspector.show(found);
    this.list.update();
    this.timeline.changed();
    paintFoot(this);
  }

  /** @param {number} speed */
  setSpeed(speed) {
    this.player.speed = speed;
    this.player.element.playbackRate = speed;
    paintTools(this);
  }

  async download() {
    try {
      const lost = [];
      const only = this.store.files.size === 1 ? [...this.store.files.keys()][0] : undefined;
      lost.push(await download(only === undefined ? `${this.store.path}/annotations` : `${this.store.path}/files/${only}/annotation`));
      const codes = [...new Set(lost.filter(Boolean))].join(", ");
      if (codes) this.say(t("foot.lost", { codes }));
    } catch (error) {
      this.say(describeError(error), true);
    }
  }

  /**
   * A corpus of the review as it stands, and a training that goes on from its model.
   * @param {HTMLButtonElement} button
   */
  async train(button) {
    button.disabled = true;
    try {
      location.hash = `#/jobs/${await trainReview(this.store.review)}`;
    } catch (error) {
      button.disabled = false;
      this.say(describeError(error), true);
    }
  }

  /**
   * @param {string} message
   * @param {boolean} [bad]
   */
  say(message, bad = false) {
    this.message = message;
    paintFoot(this);
    if (bad) this.foot.querySelector(".message")?.classList.add("bad");
  }

  /** @param {boolean} open */
  toggleHelp(open) {
    this.help.hidden = !open;
    if (open) /** @type {HTMLElement | null} */ (this.help.querySelector("button"))?.focus();
    else this.timeline.canvas.focus({ preventScroll: true });
  }
}

/** @param {ReviewStore} store @param {number} [number] only of this file @returns {Reference | null} */
function firstOf(store, number) {
  for (const file of store.files.values()) if (number === undefined || file.number === number) if (file.rows[0]) return { file: file.number, id: file.rows[0][0] };
  return null;
}

/** Microseconds: finer than any format keeps. @param {number} time */
function round(time) {
  return Math.round(time * 1e6) / 1e6;
}

/**
 * Open a review into an element.
 * @param {HTMLElement} main
 * @param {string} id
 * @param {string} [number] of the file to begin with
 * @returns {Promise<() => void>} closes it
 */
export async function openReview(main, id, number = "") {
  const state = h("p", { class: "loading", role: "status" }, t("home.loading"));
  fill(main, state);
  const store = await ReviewStore.open(id, (done, total) => (state.textContent = t("review.opening", { done, total })));
  const view = new ReviewView(store);
  main.replaceChildren();
  append(main, [view.element]);
  document.title = `${store.review.name} · Phonechain`;
  /** @type {any} */ (window).phonechainReview = view;
  if (number !== "") view.openFile(Number(number));
  return () => view.close();
}
