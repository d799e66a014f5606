// The history of a review beside the work: who changed what and when, the newest first, and the way back to any of it.
import { describeError, get } from "../api.js";
import { fill, h } from "../dom.js";
import { moment, number, seconds, t } from "../i18n.js";
import { stem } from "./list.js";

/** @typedef {import("./store.js").Row} Row */
/** @typedef {{number: number, kind: string, file: number, position: number, before: Row[], after: Row[], target: number | null, by: string | null, at: string}} Entry */

const PAGE = 200;

export class History {
  /** @param {import("./view.js").ReviewView} view */
  constructor(view) {
    this.view = view;
    this.store = view.store;
    /** @type {Map<number, Entry>} those that are known: from `first` on all */
    this.entries = new Map();
    this.first = Infinity;
    this.busy = false;
    this.list = h("ol", { class: "log", tabIndex: 0, "aria-label": t("history.title") });
    this.note = h("p", { class: "soft", role: "status" });
    this.more = h("button", { onclick: () => void this.#load(Math.max(0, this.first - 1 - PAGE)) }, t("history.more"));
    this.element = h("section", { class: "help history", hidden: true, "aria-label": t("history.title"), onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") this.toggle(false);
      if (event.key === "Escape" || event.key === "Enter" || event.key === " ") event.stopPropagation();
    } },
      h("div", { class: "help-head" }, h("h2", null, t("history.title")), h("button", { class: "quiet", onclick: () => this.toggle(false) }, t("help.close"))),
      this.note, this.list, this.more);
    this.store.addEventListener("change", (event) => this.#take(/** @type {CustomEvent} */ (event).detail), { signal: view.abort.signal });
  }

  /** @param {boolean} [open] */
  toggle(open = this.element.hidden) {
    this.element.hidden = !open;
    if (!open) return this.view.timeline.canvas.focus({ preventScroll: true });
    this.element.querySelector("button")?.focus();
    if (this.first === Infinity) void this.#load(Math.max(0, this.store.revision - PAGE));
    else this.#paint();
  }

  /** The entries after a number, up to those that are known. @param {number} after */
  async #load(after) {
    this.more.disabled = true;
    try {
      const last = Number.isFinite(this.first) ? this.first - 1 : this.store.revision;
      const { operations } = await get(`${this.store.path}/operations?after=${after}&limit=${Math.max(1, last - after)}`);
      this.first = after + 1;
      this.#take(operations);
    } catch (error) {
      this.note.textContent = describeError(error);
    }
    this.more.disabled = false;
  }

  /** @param {Entry[]} operations */
  #take(operations) {
    for (const one of operations) this.entries.set(one.number, one);
    if (!this.element.hidden && Number.isFinite(this.first)) this.#paint();
  }

  /** Those that are in effect, the newest first: neither undone nor an undoing. @param {Entry[]} entries the newest first */
  #standing(entries) {
    /** @type {Map<number, boolean>} */
    const undone = new Map();
    for (const one of entries) if (one.target !== null && !undone.has(one.target)) undone.set(one.target, one.kind === "undo");
    return entries.filter((one) => one.target === null && !undone.get(one.number));
  }

  #paint() {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.["entry"];
    const entries = [...this.entries.values()].filter((one) => one.number >= this.first).sort((a, b) => b.number - a.number);
    const standing = this.#standing(entries);
    fill(this.list, entries.map((one) => this.#row(one, standing.indexOf(one))));
    this.note.textContent = entries.length === 0 ? t("history.none") : "";
    this.more.hidden = this.first <= 1;
    if (focused) /** @type {HTMLElement} */ (this.list.querySelector(`[data-entry="${focused}"]`) ?? this.list).focus();
  }

  /**
   * @param {Entry} one
   * @param {number} at its place among those in effect, -1 if it is not
   */
  #row(one, at) {
    const file = this.store.files.get(one.file);
    const row = one.after[0] ?? one.before[0];
    const gone = one.target === null && at < 0;
    return h("li", { class: gone ? "gone" : "" },
      h("button", { class: "log-what", data: { entry: `${one.number} what` }, onclick: () => row && this.view.select({ file: one.file, id: row[0] }, false) },
        h("span", { class: "phone" }, this.#words(one)), gone && h("span", { class: "soft" }, ` ${t("history.undone")}`)),
      h("span", { class: "soft log-where" }, [moment(one.at), one.by, file && stem(file.meta.name), row && one.kind !== "fill" && seconds(row[1])].filter(Boolean).join(" · ")),
      at >= 0 && h("button", { class: "quiet", data: { entry: `${one.number} undo` }, onclick: () => void this.#undo(at + 1) },
        at === 0 ? t("history.undo") : t("history.undo.to", { count: number(at + 1) })));
  }

  /** What an entry did, in words. @param {Entry} one @returns {string} */
  #words(one) {
    const target = one.target === null ? undefined : this.entries.get(one.target);
    const [before, after] = [one.before[0], one.after[0]];
    const name = (/** @type {Row | undefined} */ row) => row?.[3] ?? "·";
    switch (one.kind) {
      case "label": return t("history.label", { before: name(before), after: name(after) });
      case "accept": return t(after?.[4] ? "history.accept" : "history.withdraw", { label: name(after) });
      case "move": {
        const moved = one.before.flatMap((row, k) => [1, 2].map((edge) => (/** @type {number} */ (one.after[k]?.[edge]) - /** @type {number} */ (row[edge])))).find((by) => by !== 0) ?? 0;
        return t("history.move", { label: name(before), by: `${moved > 0 ? "+" : "−"}${Math.abs(Math.round(1000 * moved))}` });
      }
      case "split": return t("history.split", { label: name(before) });
      case "merge": return t("history.merge", { first: name(before), second: name(one.before[1]), label: name(after) });
      case "fill": return t("history.fill", { count: number(one.after.length) });
      default: return t(one.kind === "redo" ? "history.redid" : "history.undid", { what: target ? this.#words(target) : `#${one.target}` });
    }
  }

  /** Undo the last so many operations. @param {number} count */
  async #undo(count) {
    if (this.busy) return;
    this.busy = true;
    for (let left = count; left > 0; left--) if (!(await this.view.back("undo"))) break;
    this.busy = false;
  }
}
