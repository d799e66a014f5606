// Train: corpora to choose from or to drop; what is in one, spellings to merge, and the training itself.
import { get, post } from "../api.js";
import { append, fill, h } from "../dom.js";
import { Clips } from "../clips.js";
import { dropZone } from "../drop.js";
import { number, t, when } from "../i18n.js";
import { reviewButton } from "../stored.js";
import { postForm, wordsOf } from "../uploads.js";
import { mergeTable, shown } from "./merge.js";

/** @typedef {import("../drop.js").Dropped} Dropped */

/**
 * @param {HTMLElement} main
 * @param {string} id of a corpus, empty for all of them
 * @returns {Promise<() => void>}
 */
export async function openTrain(main, id) {
  document.title = `${t("nav.train")} · Phonechain`;
  return id ? openCorpus(main, id) : openCorpora(main);
}

/** @param {HTMLElement} main */
async function openCorpora(main) {
  const work = h("div", { class: "work", role: "status" });
  const list = h("ul", { class: "cards" });
  const more = h("div");
  const page = h("div", { class: "home" });
  const zone = dropZone(page, { title: t("train.drop"), hint: t("train.hint"), take, folder: true });
  append(page, [h("div", { class: "lead" }, h("h1", null, t("train.title")), h("p", null, t("train.lead"))), zone, work, h("h2", null, t("train.corpora")), list, more]);
  fill(main, page);

  /** @param {Dropped[]} files */
  async function take(files) {
    const usable = files.filter(({ file }) => !file.name.startsWith("."));
    const first = usable[0];
    if (!first) return;
    const packed = usable.length === 1 && /\.(zip|tar|tgz|tar\.gz)$/i.test(first.file.name);
    const name = (packed ? first.file.name.replace(/\.(zip|tar|tgz|tar\.gz)$/i, "") : first.folder.split("/")[0] || first.file.name).slice(0, 200);
    fill(work, h("p", { class: "soft" }, t("train.sending", { count: number(usable.length), name })), h("progress", { "aria-label": t("train.sending", { count: usable.length, name }) }));
    try {
      const form = new FormData();
      form.set("name", name);
      // Folders below the one that was chosen are speakers and splits.
      if (packed) form.set("archive", first.file, first.file.name);
      else for (const one of usable) form.append("files", one.file, [...one.folder.split("/").slice(1), one.file.name].filter(Boolean).join("/"));
      const corpus = await postForm("corpora", form);
      location.hash = `#/train/${corpus.id}`;
    } catch (error) {
      fill(work, h("p", { class: "bad", role: "alert" }, wordsOf(error)));
    }
  }

  /** @param {string} [cursor] */
  async function load(cursor) {
    const found = await get(`corpora?limit=20${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    for (const corpus of found.corpora) {
      list.append(h("li", null, h("a", { class: "card", href: `#/train/${corpus.id}` }, h("span", { class: "card-name cut" }, corpus.name),
        h("span", { class: "soft" }, counts(corpus)), h("span", { class: "soft" }, when(corpus.created)))));
    }
    fill(more, found.next && h("button", { onclick: () => void load(found.next) }, t("home.more")));
    if (list.children.length === 0) fill(more, h("p", { class: "soft" }, t("train.none")));
  }

  await load();
  return () => {};
}

/** @param {any} corpus */
function counts(corpus) {
  const parts = [t("train.count", { utterances: number(corpus.utterances), labels: number(Object.keys(corpus.labels).length) })];
  if (corpus.problem_count > 0) parts.push(t("train.problems", { count: number(corpus.problem_count) }));
  return parts.join(", ");
}

/**
 * @param {HTMLElement} main
 * @param {string} id
 */
async function openCorpus(main, id) {
  const corpus = await get(`corpora/${encodeURIComponent(id)}`);
  const note = h("div", { role: "status" });
  const clips = new Clips(id, (message) => fill(note, h("p", { class: "bad" }, message)));
  const inside = h("div", { class: "stack" }, h("p", { class: "loading", role: "status" }, t("train.reading")));
  const merge = mergeTable();
  const form = h("div");
  fill(main, h("div", { class: "sheet wide-sheet" }, h("p", { class: "crumb" }, h("a", { href: "#/train" }, `← ${t("train.all")}`)), h("h1", null, corpus.name), h("p", { class: "soft" }, [
    counts(corpus), corpus.speakers > 0 && t("train.speakers", { count: number(corpus.speakers) }), ...Object.entries(corpus.splits).map(([name, count]) => `${name} ${number(count)}`),
  ].filter(Boolean).join(" · ")), note,
  (corpus.options.holds ?? "segments") === "segments" && corpus.utterances > 0 && reviewButton({ label: t("train.review"), name: corpus.name, count: corpus.utterances, source: { corpus: id } }), h("h2", null, t("train.form")), form, inside));
  void showForm(corpus, form, merge).catch((error) => fill(form, h("p", { class: "bad" }, wordsOf(error))));

  get(`corpora/${encodeURIComponent(id)}/summary`).then((summary) => {
    merge.offer(summary.alike, summary.labels.map((/** @type {any} */ one) => one.label));
    fill(inside, problems(corpus, clips), merge.element, labels(summary, clips), speakers(summary));
  }).catch((error) => fill(inside, h("p", { class: "bad", role: "alert" }, wordsOf(error))));
  return () => clips.stop();
}

/**
 * Files that cannot be used, with the sound to hear.
 * @param {any} corpus
 * @param {Clips} clips
 */
function problems(corpus, clips) {
  const all = [...corpus.warnings.map((/** @type {any} */ one) => ({ file: "", message: one.message })), ...corpus.problems];
  if (all.length === 0) return null;
  const title = corpus.problem_count > 0 ? t("train.problems", { count: number(corpus.problem_count) }) : t("train.notes");
  return h("section", { class: "stack" }, h("h2", null, title), region(title, h("table", null,
    h("thead", null, h("tr", null, h("th", null, t("train.file")), h("th", null, t("jobs.problem")), h("th", null, h("span", { class: "visually-hidden" }, t("hear"))))),
    h("tbody", null, all.map((one) => h("tr", null, h("td", null, one.file, one.line ? `:${one.line}` : ""), h("td", null, one.message), h("td", null, one.file && clips.button({ utterance: one.file }, one.file))))))));
}

/**
 * @param {any} summary
 * @param {Clips} clips
 */
function labels(summary, clips) {
  const most = Math.max(1, ...summary.labels.map((/** @type {any} */ one) => one.count));
  const title = t("train.labels", { count: number(summary.labels.length), minutes: (summary.seconds / 60).toFixed(1) });
  return h("section", { class: "stack" }, h("h2", null, title), summary.unlabelled > 0 && h("p", { class: "soft" }, t("train.unlabelled", { count: number(summary.unlabelled) })),
    region(title, h("table", null, h("thead", null, h("tr", null, h("th", null, t("list.filter.label")), h("th", { class: "end" }, t("train.times")), h("th", null, h("span", { class: "visually-hidden" }, t("train.share"))), h("th", { class: "end" }, t("train.total")), h("th", { class: "end" }, t("train.median")), h("th", { class: "end" }, t("train.range")), h("th", null, h("span", { class: "visually-hidden" }, t("hear"))))),
      h("tbody", null, summary.labels.map((/** @type {any} */ one) => h("tr", null,
        h("th", { class: "phone", scope: "row" }, one.label, invisible(one.label)), h("td", { class: "end tabular" }, number(one.count)),
        h("td", { class: "share" }, h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { style: { width: `${(100 * one.count) / most}%` } }))),
        h("td", { class: "end tabular" }, `${one.seconds.toFixed(1)} s`), h("td", { class: "end tabular" }, ms(one.median)), h("td", { class: "end tabular" }, `${ms(one.shortest)} – ${ms(one.longest)}`),
        h("td", null, clips.button(one.example, one.label))))))));
}

/** Code points of a label with characters that nobody sees, so that two such labels do not look the same. @param {string} label */
function invisible(label) {
  return /[\p{C}\p{Z}\u034f]/u.test(label) && h("span", { class: "soft small-text" }, shown(label));
}

/** @param {any} summary */
function speakers(summary) {
  if (summary.speakers.length < 2) return null;
  const title = t("train.speakers", { count: number(summary.speakers.length) });
  return h("details", null, h("summary", null, title), region(title, h("table", null,
    h("thead", null, h("tr", null, h("th", null, t("list.filter.speaker")), h("th", { class: "end" }, t("train.recordings")), h("th", { class: "end" }, t("train.total")))),
    h("tbody", null, summary.speakers.map((/** @type {any} */ one) => h("tr", null, h("th", { scope: "row" }, one.speaker ?? t("train.nobody")), h("td", { class: "end tabular" }, number(one.utterances)), h("td", { class: "end tabular" }, `${one.seconds.toFixed(1)} s`)))))));
}

/** @param {number} seconds */
function ms(seconds) {
  return `${Math.round(1000 * seconds)} ms`;
}

/**
 * A table that scrolls by itself, by keyboard too.
 * @param {string} name
 * @param {any} table
 */
export function region(name, table) {
  return h("div", { class: "scroll-x scroll-y", tabIndex: 0, role: "region", "aria-label": name }, table);
}

/**
 * What to start from, how long, under which name; and the start.
 * @param {any} corpus
 * @param {HTMLElement} place
 * @param {ReturnType<typeof mergeTable>} merge
 */
async function showForm(corpus, place, merge) {
  const [{ models }, { presets }] = await Promise.all([get("models?kind=labelling"), get("presets")]);
  const names = [...new Set(models.map((/** @type {any} */ one) => one.name))];
  const start = h("select", { onchange: () => (system.parentElement.hidden = start.value !== "") },
    names.map((name) => h("option", { value: name, selected: name === "default" }, t("train.start.model", { name }))), h("option", { value: "" }, t("train.start.anew")));
  const system = h("select", null, presets.map((/** @type {any} */ one) => h("option", { value: one.name, selected: one.name === "spn-lc-crf" }, `${one.name}: ${one.title}`)));
  const name = h("input", { type: "text", required: true, maxLength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", value: modelName(corpus.name), "aria-describedby": "name-hint", oninput: () => name.setCustomValidity(name.validity.patternMismatch ? t("train.name.wrong", { name: modelName(name.value) }) : "") });
  const epochs = h("input", { type: "number", min: 1, max: 1000, placeholder: t("train.epochs.preset") });
  const note = h("div", { role: "status", class: "wide" });
  const button = h("button", { class: "primary" }, t("train.begin"));
  fill(place, h("form", { class: "options-grid", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const mapping = merge.mapping();
      const job = await post("jobs", {
        kind: "train", corpus: corpus.id, name: name.value,
        ...(start.value ? { base: start.value, fold: true } : { preset: system.value }),
        ...(epochs.value ? { training: { epochs: Number(epochs.value) } } : {}),
        ...(Object.keys(mapping).length > 0 ? { map: mapping } : {}),
        description: t("train.description", { name: corpus.name }),
      });
      location.hash = `#/jobs/${job.id}`;
    } catch (error) {
      fill(note, h("p", { class: "bad", role: "alert" }, wordsOf(error)));
      button.disabled = false;
    }
  } },
  h("label", { class: "filter" }, h("span", null, t("train.start")), start),
  h("label", { class: "filter", hidden: true }, h("span", null, t("train.system")), system),
  h("label", { class: "filter" }, h("span", null, t("train.name")), name),
  h("label", { class: "filter" }, h("span", null, t("train.epochs")), epochs),
  h("div", { class: "filter end-row" }, button), h("p", { class: "soft wide small-text", id: "name-hint" }, t("train.name.hint")), note));
}

/** A name that a model may have. @param {string} name */
export function modelName(name) {
  return name.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 90) || "model";
}
