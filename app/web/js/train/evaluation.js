// How good a model is: error with its interval, confusions down to the sounds behind a cell, reliability, a row a label.
import { get } from "../api.js";
import { reliability } from "../charts.js";
import { Clips } from "../clips.js";
import { fill, h } from "../dom.js";
import { number, posterior, t } from "../i18n.js";
import { wordsOf } from "../uploads.js";
import { Matrix } from "./matrix.js";
import { region } from "./view.js";

const SHOWN = 100; // segments behind a cell

/** @param {number | null | undefined} share */
export function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;
}

/**
 * @param {any} job
 * @returns {Promise<{element: HTMLElement, close: () => void} | null>} null where the job has kept no evaluation
 */
export async function evaluationPanel(job) {
  const path = `jobs/${encodeURIComponent(job.id)}`;
  let found;
  try {
    found = await get(`${path}/evaluation`);
  } catch {
    return null; // a job of an earlier version, or one without scores
  }
  const note = h("div", { role: "status" });
  const clips = new Clips(found.corpus.id, (message) => fill(note, h("p", { class: "bad" }, message)));
  const cell = h("div", { class: "cell stack", "aria-live": "polite" }, h("p", { class: "soft" }, t("eval.cell.none")));
  const open = (/** @type {string} */ truth, /** @type {string} */ answer) => void show(truth, answer);
  const matrix = new Matrix(found, open);
  const bins = found.reliability;
  const element = h("section", { class: "stack evaluation" }, h("h2", null, t(found.corpus.split === "held out" ? "eval.title.held" : "eval.title")), found.corpus.split === "held out" && h("p", { class: "soft" }, t("eval.held.help")), figures(found), note,
    h("div", { class: "columns" }, h("div", { class: "stack" }, h("h3", null, t("eval.reliability")),
      reliability(bins, { label: t("eval.reliability.label", { ece: percent(found.ece) }), x: t("list.p"), y: t("eval.right"), title: (bin) => t("eval.bin", { p: bin.confidence.toFixed(2), right: percent(bin.accuracy), count: number(bin.count) }) }),
      h("p", { class: "soft small-text" }, t("eval.reliability.help"))),
    h("div", { class: "stack" }, h("h3", null, t("eval.confusions")), region(t("eval.confusions"), confusions(found, open)))),
    h("h3", null, t("eval.matrix")), h("p", { class: "soft small-text" }, t("eval.matrix.help")), h("div", { class: "columns matrix-columns" }, h("div", { class: "scroll-x" }, matrix.canvas), cell),
    h("details", null, h("summary", null, t("eval.phones")), region(t("eval.phones"), phones(found, open))));

  /**
   * @param {string} truth
   * @param {string} answer
   */
  async function show(truth, answer) {
    fill(cell, h("p", { class: "loading" }, t("home.loading")));
    try {
      const query = new URLSearchParams({ true: truth, answer, limit: String(SHOWN) });
      const { count, segments } = await get(`${path}/segments?${query}`);
      const title = truth === answer ? t("eval.cell.right", { label: truth, count: number(count) }) : t("eval.cell", { truth, answer, count: number(count) });
      fill(cell, h("h4", null, title), count > segments.length && h("p", { class: "soft" }, t("eval.cell.first", { count: number(segments.length) })), count > 0 && region(title, h("table", null,
        h("thead", null, h("tr", null, h("th", null, h("span", { class: "visually-hidden" }, t("hear"))), h("th", null, t("list.utterance")), h("th", { class: "end" }, t("list.time")), h("th", { class: "end" }, t("list.p")), h("th", { class: "end" }, t("eval.of", { label: truth })))),
        h("tbody", null, segments.map((/** @type {any} */ one) => h("tr", null,
          h("td", null, clips.button(one, `${one.utterance} ${one.start.toFixed(3)}`, true)), h("td", { class: "cut", title: one.utterance }, one.utterance),
          h("td", { class: "end tabular" }, `${one.start.toFixed(2)} s`), h("td", { class: "end tabular" }, posterior(one.posterior)), h("td", { class: "end tabular" }, posterior(one.true_posterior))))))));
      cell.scrollIntoView({ block: "nearest" });
    } catch (error) {
      fill(cell, h("p", { class: "bad", role: "alert" }, wordsOf(error)));
    }
  }

  return { element, close: () => clips.stop() };
}

/** @param {any} found */
function figures(found) {
  const { low, high, level } = found.interval;
  const rows = [
    [t("eval.error"), percent(found.per), low === null || low === undefined ? t("eval.nointerval", { reason: found.interval.reason ?? "" }) : t("eval.interval", { level: Math.round(100 * level), low: percent(low), high: percent(high), units: t(found.interval_over === "speaker" ? "eval.speakers" : "eval.utterances", { count: number(found.interval.units) }) })],
    [t("eval.segments"), number(found.segments), t("eval.wrong", { count: number(found.errors) })],
    [
      t("eval.ece"),
      percent(found.ece),
      t("eval.ece.help", { p: percent(found.mean_confidence), right: percent(1 - found.per) }) +
        (found.ece_by_chance === undefined ? "" : t("eval.ece.chance", { chance: percent(found.ece_by_chance) })),
    ],
    ...(found.top["3"] !== undefined ? [[t("eval.top3"), percent(found.top["3"]), ""]] : []),
  ];
  const left = [...Object.entries(found.unknown), ...Object.entries(found.unscored)];
  return [h("dl", { class: "figures" }, rows.map(([name, value, more]) => h("div", null, h("dt", null, name), h("dd", null, h("strong", { class: "tabular" }, value), more && h("span", { class: "soft" }, more))))),
    left.length > 0 && h("p", { class: "note" }, t("eval.unscored", { labels: left.slice(0, 20).map(([label, count]) => `${label} (${count})`).join(", ") }))];
}

/**
 * @param {any} found
 * @param {(truth: string, answer: string) => void} open
 */
function confusions(found, open) {
  return h("table", null, h("thead", null, h("tr", null, h("th", null, t("list.filter.confusion")), h("th", { class: "end" }, t("train.times")), h("th", { class: "end" }, t("eval.share")))),
    h("tbody", null, found.confusions.map((/** @type {any} */ one) => h("tr", null,
      h("td", null, h("button", { class: "quiet phone", onclick: () => open(one.true, one.predicted) }, `${one.true} → ${one.predicted}`)), h("td", { class: "end tabular" }, number(one.count)), h("td", { class: "end tabular" }, percent(one.share))))));
}

/**
 * @param {any} found
 * @param {(truth: string, answer: string) => void} open
 */
function phones(found, open) {
  const rows = [...found.per_phone].filter((row) => row.count > 0).sort((a, b) => b.count - a.count);
  return h("table", null, h("thead", null, h("tr", null, h("th", null, t("list.filter.label")), h("th", { class: "end" }, t("eval.segments")), h("th", { class: "end" }, t("eval.recall")), h("th", { class: "end" }, t("eval.precision")), h("th", null, t("eval.with")))),
    h("tbody", null, rows.map((row) => h("tr", null, h("th", { class: "phone", scope: "row" }, row.label), h("td", { class: "end tabular" }, number(row.count)), h("td", { class: "end tabular" }, percent(row.recall)), h("td", { class: "end tabular" }, percent(row.precision)),
      h("td", null, row.confused_with && h("button", { class: "quiet phone", onclick: () => open(row.label, row.confused_with) }, `${row.confused_with} (${number(row.confused)})`))))));
}
