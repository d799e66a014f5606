// After a review: train again with the corrections, what to label next, and what it has brought so far.
import { get, post } from "../api.js";
import { curve } from "../charts.js";
import { fill, h } from "../dom.js";
import { number, t, when } from "../i18n.js";
import { stem } from "../review/list.js";
import { wordsOf } from "../uploads.js";
import { percent } from "./evaluation.js";
import { modelName, region } from "./view.js";

/**
 * A corpus of the review as it stands, and a training that goes on from its model. What that model was trained on before comes
 * too: from the corrections alone it would forget the rest.
 * @param {any} review
 * @param {string | null} [other] id of the corpus to train on together with the review, null for none; left out, it is looked up
 * @returns {Promise<string>} the job's id
 */
export async function trainReview(review, other) {
  const path = `reviews/${encodeURIComponent(review.id)}`;
  const beside = other === undefined ? (await get(`${path}/next?count=1`)).trained_on?.id : other;
  const corpus = await post(`${path}/corpus${beside ? `?with_corpus=${encodeURIComponent(beside)}` : ""}`, {});
  const base = review.files[0]?.model.name ?? "default";
  const job = await post("jobs", { kind: "train", corpus: corpus.id, name: modelName(review.name), base, fold: true, description: t("foot.train.description", { name: review.name }) });
  return job.id;
}

/**
 * @param {HTMLElement} main
 * @param {string} id of the review
 */
export async function openNext(main, id) {
  document.title = `${t("next.title")} · Phonechain`;
  const path = `reviews/${encodeURIComponent(id)}`;
  const [review, { files, trained_on: earlier }, { trainings }] = await Promise.all([get(path), get(`${path}/next`), get(`${path}/trainings`)]);
  const note = h("div", { role: "status" });
  const together = h("input", { type: "checkbox", checked: Boolean(earlier) });
  const train = h("button", { class: "primary", onclick: async () => {
    train.disabled = true;
    try {
      location.hash = `#/jobs/${await trainReview(review, together.checked ? earlier.id : null)}`;
    } catch (error) {
      train.disabled = false;
      fill(note, h("p", { class: "bad", role: "alert" }, wordsOf(error)));
    }
  } }, t("next.train"));
  fill(main, h("div", { class: "sheet wide-sheet" }, h("p", { class: "crumb" }, h("a", { href: `#/review/${id}` }, `← ${t("next.back")}`)), h("h1", null, review.name), h("p", { class: "soft" }, t("next.lead")), h("div", { class: "row" }, train, earlier && h("label", { class: "check wrap" }, together, t("next.with", { count: number(earlier.utterances), name: earlier.name }))), note,
    h("div", { class: "columns" },
      h("section", { class: "stack" }, h("h2", null, t("next.label")), files.length > 0 ? [h("p", { class: "soft" }, t("next.label.help")), list(id, files)] : h("p", { class: "soft" }, t("next.none"))),
      h("section", { class: "stack" }, h("h2", null, t("next.curve")), progress(trainings)))));
}

/**
 * @param {string} id
 * @param {any[]} files
 */
function list(id, files) {
  const named = files.some((one) => one.speaker);
  return region(t("next.label"), h("table", null,
    h("thead", null, h("tr", null, h("th", null, t("list.utterance")), named && h("th", null, t("inspector.speaker")), h("th", { class: "end" }, t("next.doubt")), h("th", { class: "end" }, t("next.todo")))),
    h("tbody", null, files.map((one) => h("tr", null, h("td", null, h("a", { href: `#/review/${id}/${one.number}` }, stem(one.name))), named && h("td", null, one.speaker ?? ""), h("td", { class: "end tabular" }, one.doubt.toFixed(2)), h("td", { class: "end tabular" }, number(one.unchecked)))))));
}

/** @param {any[]} trainings */
function progress(trainings) {
  const done = trainings.filter((one) => one.error !== null);
  if (trainings.length === 0) return h("p", { class: "soft" }, t("next.curve.none"));
  const minutes = (/** @type {any} */ one) => one.checked_seconds / 60;
  const minutesText = (/** @type {any} */ one) => (minutes(one) < 1 ? minutes(one).toFixed(2) : minutes(one).toFixed(1));
  const words = (/** @type {any} */ one) => `${minutesText(one)}: ${percent(one.error)}`;
  return [
    done.length > 0 ? curve(done.map((one) => ({ x: minutes(one), y: one.error, low: one.low, high: one.high, title: words(one) })), {
      label: `${t("next.curve")}: ${done.map(words).join("; ")}`, x: t("next.minutes"), y: t("eval.error"), format: (value) => `${(100 * value).toFixed(0)} %`, dots: true, kind: "dev_error", whole: true,
    }) : h("p", { class: "soft" }, t("next.curve.none")),
    h("p", { class: "soft small-text" }, t("next.curve.help")),
    region(t("next.trainings"), h("table", null, h("thead", null, h("tr", null, h("th", null, t("next.trainings")), h("th", { class: "end" }, t("next.minutes")), h("th", { class: "end" }, t("eval.error")))),
      h("tbody", null, trainings.map((one) => h("tr", null, h("td", null, h("a", { href: `#/jobs/${one.job}` }, when(one.created))), h("td", { class: "end tabular" }, minutesText(one)), h("td", { class: "end tabular" }, one.error === null ? t(/** @type {any} */ (`jobs.state.${one.state}`)) : percent(one.error)))))))];
}
