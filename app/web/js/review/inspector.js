// The panel about the chosen segment: its label and rank, the model's labels, times, neighbours, what can be done.
import { fill, h, icon } from "../dom.js";
import { fillOf, inkOn, shade } from "../colors.js";
import { posterior, seconds, t } from "../i18n.js";
import { stem } from "./list.js";

/** Notices that mean that the answers are of no use as they are: shown without being asked for. */
const LOUD = ["tier-of-words"];

/** Events: "act" {name, value}. */
export class Inspector extends EventTarget {
  constructor() {
    super();
    this.element = h("section", { class: "inspector", "aria-label": t("inspector.title") });
    this.show(null);
  }

  /** @param {{file: import("./store.js").ReviewFile, index: number, row: import("./store.js").Row} | null} found */
  show(found) {
    if (!found) {
      fill(this.element, h("h2", { class: "visually-hidden" }, t("inspector.title")), h("p", { class: "soft" }, t("inspector.none")));
      return;
    }
    const { file, index, row } = found;
    const id = row[0];
    const given = file.answer.given[id] ?? null;
    const p = file.certainty(row);
    const at = shade(p);
    const best = file.nBest(row);
    const rank = row[3] === given ? file.answer.given_rank[id] : best.findIndex(({ label }) => label === row[3]) + 1 || null;
    const around = [-2, -1, 0, 1, 2].map((step) => ({ step, row: file.rows[index + step] }));
    fill(this.element,
      h("h2", { class: "visually-hidden" }, t("inspector.title")),
      h("div", { class: "inspector-head" },
        h("span", { class: "big phone" }, row[3] ?? "·"),
        h("span", { class: "badge tabular", style: at >= 0 ? { background: fillOf(at), color: inkOn(at) } : {} }, Number.isNaN(p) ? "–" : `p ${file.certaintyText(row)}`),
        h("span", { class: "marks" },
          rank ? h("span", { class: "soft" }, t("inspector.rank", { rank })) : h("span", { class: "soft" }, row[3] === null ? t("inspector.blank") : Number.isNaN(p) ? t("inspector.unknown") : file.bounded(row) ? t("inspector.beyond") : ""),
          row[4] && h("span", { class: "mark done" }, t("inspector.reviewed")),
          file.changed(row) && h("span", { class: "mark changed" }, t("inspector.changed")))),
      row[3] === given && file.answer.compared_as[id] && h("p", { class: "soft" }, t("inspector.compared", { label: file.answer.compared_as[id] ?? "" })),
      given !== row[3] && id < file.answer.given.length && h("p", { class: "soft" }, `${t("inspector.given")}: `, h("span", { class: "phone" }, given ?? t("inspector.blank")),
        file.answer.given_posterior[id] !== null && ` (${posterior(file.answer.given_posterior[id])})`),
      file.answer.skipped[id] && h("p", { class: "note" }, t("inspector.skipped", { reason: file.answer.skipped[id] ?? "" })),
      file.moved(row) && h("p", { class: "note" }, t("inspector.moved")),
      file.meta.warnings.filter((/** @type {any} */ one) => LOUD.includes(one.code)).map((/** @type {any} */ one) => h("p", { class: "note", role: "note" }, one.message)),
      h("h3", null, t("inspector.best")),
      h("ol", { class: "best" }, best.map(({ label, p: one }, k) => h("li", null,
        h("button", { class: `best-row${label === row[3] ? " chosen" : ""}`, onclick: () => this.#act("label", label), "aria-pressed": label === row[3] ? "true" : "false" },
          h("kbd", null, k + 1),
          h("span", { class: "phone cut" }, label),
          h("span", { class: "bar" }, h("span", { style: { width: `${Math.max(1, 100 * one)}%`, background: fillOf(shade(one)) } })),
          h("span", { class: "tabular" }, posterior(one)))))),
      h("div", { class: "actions" },
        this.#button("accept", "check", row[3] === null && file.blank && best[0] ? t("inspector.take", { label: best[0].label }) : t("inspector.accept"), "primary", "Enter"),
        this.#button("box", null, t("inspector.relabel"), "", "F2"),
        this.#button("split", "split", t("inspector.split"), "", "⇧S"),
        this.#button("merge", "merge", t("inspector.merge"), "", "⇧M")),
      h("div", { class: "around", "aria-hidden": "true" }, around.map(({ step, row: one }) => h("span", { class: `phone cut${step === 0 ? " here" : ""}` }, one ? (one[3] ?? "·") : ""))),
      h("dl", null,
        fact(t("inspector.from"), seconds(row[1])), fact(t("inspector.to"), seconds(row[2])),
        row[3] === given && !Number.isNaN(file.support(id)) && fact(t("list.support"), posterior(file.support(id)), t("list.support.help")),
        fact(t("inspector.duration"), `${Math.round(1000 * (row[2] - row[1]))} ms`),
        fact(t("inspector.file"), stem(file.meta.name)),
        file.meta.speaker && fact(t("inspector.speaker"), file.meta.speaker),
        fact(t("inspector.model"), `${file.meta.model.name} ${file.meta.model.version}`)),
      file.answer.boundaries && h("div", { class: "edges" }, h("h3", null, t("inspector.boundaries")), h("dl", null,
        edge(file, t("inspector.start"), row, row[1]), edge(file, t("inspector.end"), file.rows[index + 1], row[2]))),
      file.meta.warnings.length > 0 && h("details", { class: "warnings" }, h("summary", null, t("inspector.notes", { count: file.meta.warnings.length })),
        h("ul", null, file.meta.warnings.slice(0, 20).map((/** @type {any} */ one) => h("li", null, one.message)))));
  }

  /**
   * @param {string} name
   * @param {any} pictogram
   * @param {string} text
   * @param {string} kind
   * @param {string} key
   */
  #button(name, pictogram, text, kind, key) {
    return h("button", { class: kind, onclick: () => this.#act(name), "aria-keyshortcuts": key.replace("⇧", "Shift+") }, pictogram && icon(pictogram), text, h("kbd", { "aria-hidden": "true" }, key));
  }

  /**
   * @param {string} name
   * @param {any} [value]
   */
  #act(name, value) {
    this.dispatchEvent(new CustomEvent("act", { detail: { name, value } }));
  }
}

/**
 * How certain a boundary is: that of the segment which starts there.
 * @param {import("./store.js").ReviewFile} file
 * @param {string} name
 * @param {import("./store.js").Row | undefined} row
 * @param {number} time
 */
function edge(file, name, row, time) {
  if (!row || Math.abs(row[1] - time) > 1e-6) return null; // the end of the sound, or of a stretch
  const found = file.boundary(row);
  if (!found) return [h("dt", null, name), h("dd", { class: "soft" }, t("inspector.byhand"))];
  const at = shade(found.within);
  return [h("dt", null, name), h("dd", { class: "tabular" },
    h("span", { class: "badge small", style: { background: fillOf(at), color: inkOn(at) } }, t("inspector.within", { p: posterior(found.within) })),
    h("div", { class: "soft" }, t("inspector.between", { low: found.low.toFixed(3), high: found.high.toFixed(3) })))];
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} [help] what the fact means
 */
function fact(name, value, help) {
  return [h("dt", help ? { title: help } : null, name), h("dd", { class: "tabular cut", title: help ?? value }, value)];
}
