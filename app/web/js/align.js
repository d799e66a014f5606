// No boundaries yet: sound with a transcript, or sound alone, becomes a review whose boundaries say how certain they are.
import { get, post, Problem, request } from "./api.js";
import { append, fill, h } from "./dom.js";
import { dropZone, nameOf, pairUp, sampleFiles, speakerOf } from "./drop.js";
import { number, t } from "./i18n.js";
import { fillModels, postForm, Uploads, wordsOf } from "./uploads.js";

/** @typedef {import("./drop.js").Dropped} Dropped */
/** @typedef {import("./drop.js").Pair} Pair */

const SOURCES = /** @type {const} */ (["words", "phones", "boundaries", "nothing"]);
/** The alignment model that the service has always. */
const ALIGNER = "english-alignment";
const SAMPLE_TEXT = "in being comparatively modern";

/** @param {HTMLElement} main */
export async function openAlign(main) {
  document.title = `${t("nav.align")} · Phonechain`;
  /** @type {Pair[]} */
  let pairs = [];
  /** @type {Set<Pair>} those that are in the review */
  const done = new Set();
  let review = "";
  /** @type {Uploads | null} */
  let uploads = null;

  const models = h("select", null, h("option", { value: "default" }, "default"));
  const aligners = h("select", null, h("option", { value: ALIGNER }, ALIGNER));
  const source = h("select", { onchange: () => show() }, SOURCES.map((one) => h("option", { value: one }, t(`align.from.${one}`))));
  const text = h("textarea", { rows: 2, maxLength: 200_000, oninput: () => show(), placeholder: t("align.text.words") });
  const dictionary = h("select", { onchange: () => show() }, h("option", { value: "english" }, t("align.dictionary.english")), h("option", { value: "own" }, t("align.dictionary.own")));
  const own = h("input", { type: "file", class: "file" });
  const language = h("input", { type: "text", maxLength: 20, value: "en" });
  const textField = h("label", { class: "filter wide" }, h("span", null, t("align.text")), text);
  const dictionaryField = h("label", { class: "filter" }, h("span", null, t("align.dictionary")), dictionary);
  const ownField = h("label", { class: "filter wide" }, h("span", null, t("align.dictionary.file")), own);
  const languageField = h("label", { class: "filter" }, h("span", null, t("align.language")), language);
  const spread = h("input", { type: "number", min: 1, max: 1000, value: "30" });
  const spreadField = h("label", { class: "filter" }, h("span", null, t("align.spread")), spread);
  const refining = h("p", { class: "note wide" }, t("align.refine"));
  const experiment = h("p", { class: "note wide" }, t("align.experiment"));
  const list = h("div", { class: "work", "aria-live": "polite" });
  const after = h("div", { class: "row" });
  const start = h("button", { class: "primary", onclick: () => void run() }, t("align.start.words"));
  const job = h("button", { title: t("align.job.help"), "aria-describedby": "job-help", onclick: () => void runAsJob() }, t("align.job"));
  const jobField = h("div", { class: "row", hidden: true }, job, h("span", { class: "soft", id: "job-help" }, t("align.job.help")));
  const page = h("div", { class: "home" });
  const zone = dropZone(page, { title: t("align.drop"), hint: t("align.hint"), take, folder: true, sample: async () => {
    text.value = SAMPLE_TEXT;
    take(await sampleFiles("flac"));
  } });
  append(page, [h("div", { class: "lead" }, h("h1", null, t("align.title")), h("p", null, t("align.lead"))), zone,
    h("div", { class: "options-grid" },
      h("label", { class: "filter" }, h("span", null, t("align.from")), source), dictionaryField, languageField,
      h("label", { class: "filter" }, h("span", null, t("align.aligner")), aligners), h("label", { class: "filter" }, h("span", null, t("align.model")), models), spreadField, ownField, textField, refining, experiment),
    list, h("div", { class: "row" }, start, jobField), after]);
  fill(main, page);

  /** @param {Dropped[]} files */
  function take(files) {
    const given = pairUp(files);
    // A text file alone is the transcript of the recording that is already here, if there is one.
    const waiting = pairs.filter((pair) => !done.has(pair) && pair.audio && !pair.segments);
    const only = given[0];
    if (given.length === 1 && only?.segments && !only.audio && waiting.length === 1 && waiting[0]) waiting[0].segments = only.segments;
    else pairs = [...pairs, ...given];
    if (pairs.some((pair) => !pair.segments && pair.audio) && pairs.every((pair) => !pair.segments) && !text.value.trim()) text.focus();
    show();
  }

  /** @param {Pair} pair */
  function ready(pair) {
    if (source.value === "boundaries") return pair.audio && pair.segments;
    return pair.audio && (source.value === "nothing" || pair.segments || text.value.trim());
  }

  function show() {
    const from = /** @type {typeof SOURCES[number]} */ (source.value);
    textField.hidden = from === "nothing" || from === "boundaries";
    spreadField.hidden = refining.hidden = from !== "boundaries";
    dictionaryField.hidden = from !== "words";
    ownField.hidden = from !== "words" || dictionary.value !== "own";
    languageField.hidden = from !== "words";
    experiment.hidden = from !== "nothing";
    text.placeholder = from === "phones" ? t("align.text.phones") : t("align.text.words");
    const count = pairs.filter((pair) => !done.has(pair) && ready(pair)).length;
    start.disabled = count === 0;
    start.textContent = t(`align.start.${from}`);
    jobField.hidden = count < 2;
    if (pairs.length === 0) return;
    uploads = new Uploads(pairs, (pair) => {
      if (!pair.audio) return t("align.no.audio");
      if (from === "nothing") return t("align.waiting.recognise");
      if (from === "boundaries") return pair.segments ? t("align.waiting.refine", { name: pair.segments.file.name }) : t("align.no.boundaries");
      if (pair.segments) return t("align.waiting.file", { name: pair.segments.file.name });
      return t(text.value.trim() ? "align.waiting.typed" : "align.waiting.alone");
    });
    fill(list, uploads.element);
  }

  async function run() {
    const todo = pairs.filter((pair) => !done.has(pair) && ready(pair));
    if (todo.length === 0 || !uploads) return;
    start.disabled = true;
    fill(after);
    try {
      review ||= (await post("reviews", { name: nameOf(todo) })).id;
      for (const pair of await uploads.run(todo, send)) done.add(pair);
      if (pairs.every((pair) => done.has(pair))) location.hash = `#/review/${review}`;
      else if (done.size > 0) fill(after, h("a", { class: "button", href: `#/review/${review}` }, t("upload.open")));
      else {
        await request("DELETE", `reviews/${review}`).catch(() => {});
        review = "";
      }
    } catch (error) {
      fill(after, h("p", { class: "bad", role: "alert" }, wordsOf(error)));
    }
    start.disabled = false;
    start.textContent = t("align.again");
  }

  /** All of them as a job, which the page then follows. */
  async function runAsJob() {
    const todo = pairs.filter((pair) => !done.has(pair) && ready(pair));
    const from = source.value;
    job.disabled = start.disabled = true;
    fill(after, h("p", { class: "soft", role: "status" }, t("align.job.sending", { count: number(todo.length) })), h("progress", { "aria-label": t("align.job") }));
    try {
      const form = new FormData();
      form.set("job", JSON.stringify(from === "nothing" ? { kind: "recognize", model: aligners.value } : {
        kind: "align", model: aligners.value, phones: from === "phones", ...(from === "boundaries" ? { refine: true, spread: Number(spread.value) / 1000 } : {}),
        ...(from === "words" ? { language: language.value.trim(), ...(ownDictionary() ? { dictionary: await ownDictionary().text() } : {}) } : {}),
      }));
      // A folder that all have in common is the corpus; those below it are speakers.
      const shared = new Set(todo.map((pair) => pair.audio?.folder.split("/")[0])).size === 1;
      for (const pair of todo) {
        const audio = /** @type {Dropped} */ (pair.audio);
        const folder = audio.folder.split("/").slice(shared ? 1 : 0).filter(Boolean);
        form.append("files", audio.file, [...folder, audio.file.name].join("/"));
        if (from === "nothing") continue;
        const transcript = pair.segments?.file;
        form.append("files", transcript ?? new Blob([text.value]), [...folder, transcript?.name ?? `${pair.name}.txt`].join("/"));
      }
      location.hash = `#/jobs/${(await postForm("jobs", form)).id}`;
    } catch (error) {
      fill(after, h("p", { class: "bad", role: "alert" }, wordsOf(error)));
      job.disabled = start.disabled = false;
    }
  }

  /** @returns {any} the file of the reader's own dictionary, if that is what is to be used */
  function ownDictionary() {
    return source.value === "words" && dictionary.value === "own" ? own.files[0] : null;
  }

  /**
   * Find the boundaries of one recording, and put it into the review.
   * @param {Pair} pair
   */
  async function send(pair) {
    const audio = /** @type {Dropped} */ (pair.audio);
    const sound = { file: audio.file, name: audio.file.name };
    const from = source.value;
    const transcript = pair.segments && { file: pair.segments.file, name: pair.segments.file.name };
    // The phones of a text file are typed ones too; of an annotation the service sees itself what its tier holds.
    const typed = from === "boundaries" ? "" : from === "phones" && transcript && /\.(txt|lab)$/i.test(transcript.name) ? await transcript.file.text() : transcript ? "" : text.value;
    let found;
    try {
      found = from === "nothing" ? await postForm("recognize", { audio: sound, model: aligners.value })
        : await postForm("align", {
          audio: sound, model: aligners.value, transcript: typed ? null : transcript, text: typed, phones: from === "phones" ? "true" : "",
          dictionary: ownDictionary(), refine: from === "boundaries" ? "true" : "", spread: from === "boundaries" ? String(Number(spread.value) / 1000) : "", language: from === "words" ? language.value.trim() : "",
        });
    } catch (error) {
      const missing = error instanceof Problem ? error.document["missing"] : undefined;
      if (!Array.isArray(missing) || missing.every((word) => /** @type {Error} */ (error).message.includes(word))) throw error;
      throw new Error(`${wordsOf(error)} ${t("align.missing", { words: missing.join(", ") })}`);
    }
    const added = await postForm(`reviews/${review}/files`, {
      audio: sound, alignment: new Blob([JSON.stringify(found)], { type: "application/json" }), transcript: from === "nothing" ? null : transcript, model: models.value, speaker: speakerOf(audio, pairs),
    });
    return t("align.done", { count: number(added.segments) });
  }

  show();
  /** @param {string} kind */
  const known = (kind) => get(`models?kind=${kind}`).catch(() => ({ models: [] }));
  const [labelling, alignment] = await Promise.all([known("labelling"), known("alignment")]);
  fillModels(models, labelling);
  fillModels(aligners, alignment, ALIGNER);
}
