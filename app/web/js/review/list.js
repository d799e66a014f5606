// The doubtful segments of all files, the least certain first: a list of which only the visible rows exist. Labels that the model
// knows come first, by their support; the others follow in a group of their own, by the posterior of the answer.
import { fill, h } from "../dom.js";
import { fillOf, inkOn, shade } from "../colors.js";
import { number, posterior, t } from "../i18n.js";

/** @typedef {import("./store.js").ReviewStore} ReviewStore */
/** @typedef {import("./store.js").Reference} Reference */
/** @typedef {{file: number, id: number, known: boolean, doubt: number}} Entry */

const ROW = 32;

/** Events: "choose" {file, id, play}; "fill", the model's labels for those that have none. */
export class DoubtfulList extends EventTarget {
  /** @param {ReviewStore} store */
  constructor(store) {
    super();
    this.store = store;
    /** @type {Entry[]} */
    this.entries = [];
    this.at = -1;
    /** Index of the first entry ranked by its answer, above which a line says so; -1 where no line is needed. */
    this.split = -1;
    /** Whether known labels are ranked by support: old reviews, and models that are no CRF, have the posterior alone. */
    this.supported = false;
    this.filters = { label: "", speaker: "", file: "", confusion: "", sort: "", todo: true };
    this.body = h("div", { class: "list-body" });
    this.scroller = h("div", { class: "list-scroll", role: "listbox", tabIndex: 0, "aria-label": t("list.title"), onscroll: () => this.#paint() }, this.body);
    this.count = h("span", { class: "soft" });
    this.measure = h("span", { class: "end" });
    this.filterBox = h("div", { class: "filters" });
    this.fillButton = h("button", { class: "fill", hidden: true, onclick: () => this.dispatchEvent(new Event("fill")) });
    this.element = h("section", { class: "list", "aria-label": t("list.title") },
      h("div", { class: "list-head" }, h("h2", null, t("list.title")), this.count),
      this.filterBox, this.fillButton,
      h("div", { class: "list-columns", "aria-hidden": "true" }, h("span", null, "#"), h("span", null, t(store.files.size > 1 ? "list.utterance" : "list.time")), h("span", null, t("list.given")), h("span", null, t("list.answer")), this.measure),
      this.scroller);
    this.body.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const row = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-at]"));
      if (row) this.#choose(Number(row.dataset["at"]), true);
    });
    new ResizeObserver(() => this.#paint()).observe(this.scroller);
    this.refresh();
  }

  /** Work the list out anew: at the start, and when a filter changes. */
  refresh() {
    const current = this.entries[this.at];
    const { label, speaker, file, confusion, sort, todo } = this.filters;
    this.supported = [...this.store.files.values()].every((one) => one.supported);
    /** @type {Entry[]} */
    const entries = [];
    for (const one of this.store.files.values()) {
      if (file && String(one.number) !== file) continue;
      if (speaker && (one.meta.speaker ?? "") !== speaker) continue;
      for (const row of one.rows) {
        if (todo && row[4]) continue;
        const best = one.best(row);
        if (best === null) continue; // never labelled: new, or set aside
        const given = one.answer.given[row[0]] ?? null;
        if (label && given !== label && row[3] !== label) continue;
        if (confusion && confusion !== `${given}\t${best}`) continue;
        const known = Boolean(sort) || one.knows(row[0]);
        entries.push({ file: one.number, id: row[0], known, doubt: (sort ? one.boundary(row)?.within : this.#measure(one, row[0], known)) ?? 2 });
      }
    }
    entries.sort((a, b) => Number(b.known) - Number(a.known) || a.doubt - b.doubt || a.file - b.file || a.id - b.id);
    this.entries = entries;
    const split = entries.findIndex((entry) => !entry.known);
    // Where nothing was labelled, there is one measure and nothing to tell apart.
    this.split = split > 0 || entries.some((entry) => !entry.known && this.store.files.get(entry.file)?.answer.given[entry.id]) ? split : -1;
    this.measure.textContent = t(!sort && this.supported && entries[0]?.known ? "list.support" : "list.p");
    this.measure.title = !sort && this.supported && entries[0]?.known ? t("list.support.help") : "";
    this.at = current ? entries.findIndex((entry) => entry.file === current.file && entry.id === current.id) : -1;
    this.#paintFilters();
    this.update();
  }

  /**
   * What a segment is ranked by, as it came.
   * @param {import("./store.js").ReviewFile} file
   * @param {number} id
   * @param {boolean} known
   */
  #measure(file, id, known) {
    if (!known) return file.answer.n_best[id]?.[1];
    return this.supported ? file.support(id) : (file.answer.given_posterior[id] ?? undefined);
  }

  /** Pixels above an entry: the line above the second group takes a row. @param {number} at */
  #top(at) {
    return (at + (this.split >= 0 && at >= this.split ? 1 : 0)) * ROW;
  }

  /** The rows are painted anew; their order stays. */
  update() {
    this.body.style.height = `${this.#top(this.entries.length)}px`;
    this.count.textContent = number(this.entries.length);
    const unlabelled = [...this.store.files.values()].reduce((sum, file) => sum + file.unlabelled(), 0);
    this.fillButton.hidden = unlabelled === 0;
    this.fillButton.textContent = t("list.fill", { count: number(unlabelled) });
    this.body.replaceChildren();
    this.#paint();
  }

  /** @param {Reference} reference */
  mark(reference) {
    this.at = this.entries.findIndex((entry) => entry.file === reference.file && entry.id === reference.id);
    if (this.at >= 0) {
      const top = this.#top(this.at);
      const view = this.scroller;
      if (top < view.scrollTop || top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = Math.max(0, top - view.clientHeight / 3);
    }
    this.update();
  }

  /**
   * The next entry that nobody has judged, from here on and then from the top.
   * @param {Reference | null} from
   * @returns {Entry | null}
   */
  nextDoubtful(from) {
    const count = this.entries.length;
    const begin = from ? this.entries.findIndex((entry) => entry.file === from.file && entry.id === from.id) : -1;
    for (let step = 1; step <= count; step++) {
      const entry = this.entries[(Math.max(begin, -1) + step + count) % count];
      const found = entry && this.store.row(entry);
      if (entry && found && !found.row[4] && !(from && entry.file === from.file && entry.id === from.id)) return entry;
    }
    return null;
  }

  /** @param {number} step */
  move(step) {
    const at = Math.min(this.entries.length - 1, Math.max(0, this.at + step));
    if (this.entries[at]) this.#choose(at, true);
  }

  /**
   * @param {number} at
   * @param {boolean} play
   */
  #choose(at, play) {
    const entry = this.entries[at];
    if (entry) this.dispatchEvent(new CustomEvent("choose", { detail: { file: entry.file, id: entry.id, play } }));
  }

  #paint() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 5);
    const last = Math.min(this.entries.length, first + Math.ceil(this.scroller.clientHeight / ROW) + 8);
    if (this.entries.length === 0) {
      const { segments, reviewed } = this.store.counts();
      fill(this.body, h("p", { class: "list-empty" }, segments > 0 && reviewed > 0 && this.filters.todo ? t("list.empty.done") : t("list.empty")));
      this.scroller.removeAttribute("aria-activedescendant");
      return;
    }
    const known = new Map([...this.body.querySelectorAll("[data-at]")].map((/** @type {any} */ row) => [Number(row.dataset.at), row]));
    for (const [at, row] of known) if (at < first || at >= last) row.remove();
    for (let at = first; at < last; at++) if (!known.has(at)) this.body.append(this.#row(at));
    if (this.split >= 0 && !this.body.querySelector(".list-group")) {
      this.body.append(h("p", { class: "list-group soft", role: "presentation", title: t("list.unknown.help"), style: { top: `${this.split * ROW}px` } }, t("list.unknown")));
    }
    if (this.at >= first && this.at < last) this.scroller.setAttribute("aria-activedescendant", `row-${this.at}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  /** @param {number} at */
  #row(at) {
    const entry = /** @type {Entry} */ (this.entries[at]);
    const found = this.store.row(entry);
    const file = this.store.files.get(entry.file);
    const row = found?.row;
    const given = row ? row[3] : (file?.answer.given[entry.id] ?? null);
    const answer = row && file ? file.best(row) : null;
    const [p, shown] = row && file ? this.#shown(entry, file, row) : [NaN, "–"];
    const index = shade(p);
    const name = stem(file?.meta.name ?? "");
    return h("div", {
      class: `list-row${at === this.at ? " chosen" : ""}${row?.[4] ? " reviewed" : ""}${row ? "" : " gone"}`,
      role: "option", id: `row-${at}`, data: { at: String(at) }, style: { top: `${this.#top(at)}px` },
      "aria-selected": at === this.at ? "true" : "false", "aria-posinset": at + 1, "aria-setsize": this.entries.length,
    },
    h("span", { class: "soft tabular" }, row?.[4] ? h("span", { role: "img", "aria-label": t("inspector.reviewed") }, "✓") : number(at + 1)),
    // With one recording the time says more than its name.
    this.store.files.size > 1 ? h("span", { class: "cut", title: name }, name) : h("span", { class: "cut tabular" }, row ? row[1].toFixed(3) : ""),
    h("span", { class: "phone cut" }, aside(t("list.given")), given ?? "·"),
    h("span", { class: "phone cut soft" }, aside(t("list.answer")), answer ?? ""),
    h("span", { class: "p tabular", style: index >= 0 ? { background: fillOf(index), color: inkOn(index) } : {} }, aside(t(entry.known && this.supported && !this.filters.sort ? "list.support" : "list.p")), shown));
  }

  /**
   * The last column, as number and text: what the entry is ranked by. A label that was changed since has no support.
   * @param {Entry} entry
   * @param {import("./store.js").ReviewFile} file
   * @param {import("./store.js").Row} row
   * @returns {[number, string]}
   */
  #shown(entry, file, row) {
    if (!this.filters.sort && entry.known && !this.supported) return [file.certainty(row), file.certaintyText(row)];
    const p = this.filters.sort ? file.boundary(row)?.within
      : entry.known && row[3] !== file.answer.given[entry.id] ? undefined : this.#measure(file, entry.id, entry.known);
    return [p ?? NaN, posterior(p)];
  }

  #paintFilters() {
    /** @type {Map<string, number>} */
    const labels = new Map();
    /** @type {Map<string, number>} */
    const confusions = new Map();
    const speakers = new Set();
    for (const file of this.store.files.values()) {
      if (file.meta.speaker) speakers.add(file.meta.speaker);
      file.answer.given.forEach((given, id) => {
        if (given === null) return;
        if (file.answer.given_rank[id] === 1) return void labels.set(given, (labels.get(given) ?? 0) + 1); // spelled otherwise, and the same
        labels.set(given, (labels.get(given) ?? 0) + 1);
        const best = file.answer.labels[file.answer.n_best[id]?.[0] ?? -1];
        if (best !== undefined && best !== given) confusions.set(`${given}\t${best}`, (confusions.get(`${given}\t${best}`) ?? 0) + 1);
      });
    }
    const sorted = [...confusions].sort((a, b) => b[1] - a[1]).slice(0, 200);
    const files = [...this.store.files.values()];
    fill(this.filterBox,
      this.#select("label", [...labels].sort(([a], [b]) => a.localeCompare(b)).map(([label, count]) => [label, `${label} (${number(count)})`])),
      this.#select("confusion", sorted.map(([pair, count]) => [pair, `${pair.replace("\t", " → ")} (${number(count)})`])),
      speakers.size > 0 && this.#select("speaker", [...speakers].sort().map((one) => [one, one])),
      files.some((file) => file.answer.boundaries) && this.#select("sort", [["boundary", t("list.sort.boundary")]], t("list.sort"), t("list.sort.label")),
      files.length > 1 && this.#select("file", files.map((file) => [String(file.number), stem(file.meta.name)])),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: this.filters.todo, onchange: (/** @type {any} */ event) => {
        this.filters.todo = event.target.checked;
        this.refresh();
      } }), t("list.filter.todo")));
  }

  /**
   * @param {"label" | "speaker" | "file" | "confusion" | "sort"} name
   * @param {string[][]} options
   * @param {string} [title]
   * @param {string} [none] what no choice means
   */
  #select(name, options, title = t(/** @type {any} */ (`list.filter.${name}`)), none = t("list.filter.all")) {
    const select = h("select", { onchange: () => {
      this.filters[name] = select.value;
      this.refresh();
      /** @type {HTMLElement | null} */ (this.filterBox.querySelector(`[data-filter="${name}"]`))?.focus();
    }, data: { filter: name } },
    h("option", { value: "" }, none),
    options.map(([value, text]) => h("option", { value, selected: value === this.filters[name] }, text)));
    return h("label", { class: "filter" }, h("span", null, title), select);
  }
}

/** A word for those who do not see the column. @param {string} text */
function aside(text) {
  return h("span", { class: "visually-hidden" }, `${text} `);
}

/** A file name without folders and suffix. @param {string} name */
export function stem(name) {
  const base = name.replaceAll("\\", "/").split("/").pop() ?? name;
  return base.includes(".", 1) ? base.slice(0, base.lastIndexOf(".")) : base;
}
