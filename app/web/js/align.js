// No boundaries yet: sound with a transcript, or sound alone, becomes a review whose boundaries say how certain they are.
import { get, post, Problem, request } from "./api.js";
import { append, fill, h } from "./dom.js";
import { dropZone, nameOf, pairUp, sampleFiles, speakerOf } from "./drop.js";
import { number, t } from "./i18n.js";
import { fillModels, postForm, Uploads, wordsOf } from "./uploads.js";

/** @typedef {import("./drop.js").Dropped} Dropped */
/** @typedef {import("./drop.js").Pair} Pair */

const SOURCES = /** @type {const} */ (["words", "phones", "nothing"]);
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
  const source = h("select", { onchange: () => show() }, SOURCES.map((one) => h("option", { value: one }, t(`align.from.${one}`))));
  const text = h("textarea", { rows: 2, maxLength: 200_000, oninput: () => show(), placeholder: t("align.text.words") });
  const dictionary = h("select", { onchange: () => show() }, h("option", { value: "english" }, t("align.dictionary.english")), h("option", { value: "own" }, t("align.dictionary.own")));
  const own = h("input", { type: "file", class: "file" });
  const language = h("input", { type: "text", maxLength: 20, value: "en" });
  const textField = h("label", { class: "filter wide" }, h("span", null, t("align.text")), text);
  const dictionaryField = h("label", { class: "filter" }, h("span", null, t("align.dictionary")), dictionary);
  const ownField = h("label", { class: "filter wide" }, h("span", null, t("align.dictionary.file")), own);
  const languageField = h("label", { class: "filter" }, h("span", null, t("align.language")), language);
  const experiment = h("p", { class: "note wide" }, t("align.experiment"));
  const list = h("div", { class: "work", "aria-live": "polite" });
  const after = h("div", { class: "row" });
  const start = h("button", { class: "primary", onclick: () => void run() }, t("align.start"));
  const page = h("div", { class: "home" });
  const zone = dropZone(page, { title: t("align.drop"), hint: t("align.hint"), take, folder: true, sample: async () => {
    text.value = SAMPLE_TEXT;
    take(await sampleFiles("flac"));
  } });
  append(page, [h("div", { class: "lead" }, h("h1", null, t("align.title")), h("p", null, t("align.lead"))), zone,
    h("div", { class: "options-grid" },
      h("label", { class: "filter" }, h("span", null, t("align.from")), source), dictionaryField, languageField,
      h("label", { class: "filter" }, h("span", null, t("align.model")), models), ownField, textField, experiment),
    list, h("div", { class: "row" }, start, after)]);
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
    return pair.audio && (source.value === "nothing" || pair.segments || text.value.trim());
  }

  function show() {
    const from = source.value;
    textField.hidden = from === "nothing";
    dictionaryField.hidden = from !== "words";
    ownField.hidden = from !== "words" || dictionary.value !== "own";
    languageField.hidden = from !== "words";
    experiment.hidden = from !== "nothing";
    text.placeholder = from === "phones" ? t("align.text.phones") : t("align.text.words");
    start.disabled = !pairs.some((pair) => !done.has(pair) && ready(pair));
    if (pairs.length === 0) return;
    uploads = new Uploads(pairs, (pair) => {
      if (!pair.audio) return t("align.no.audio");
      if (from === "nothing") return t("align.waiting.recognise");
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
    const typed = from === "phones" && transcript && /\.(txt|lab)$/i.test(transcript.name) ? await transcript.file.text() : transcript ? "" : text.value;
    let found;
    try {
      found = from === "nothing" ? await postForm("recognize", { audio: sound })
        : await postForm("align", {
          audio: sound, transcript: typed ? null : transcript, text: typed, phones: from === "phones" ? "true" : "",
          dictionary: from === "words" && dictionary.value === "own" ? own.files[0] : null, language: from === "words" ? language.value.trim() : "",
        });
    } catch (error) {
      const missing = error instanceof Problem ? error.document["missing"] : undefined;
      if (!Array.isArray(missing) || missing.every((word) => /** @type {Error} */ (error).message.includes(word))) throw error;
      throw new Error(`${wordsOf(error)} ${t("align.missing", { words: missing.join(", ") })}`);
    }
    const added = await postForm(`reviews/${review}/files`, {
      audio: sound, alignment: new Blob([JSON.stringify(found)], { type: "application/json" }), model: models.value, speaker: speakerOf(audio),
    });
    return t("align.done", { count: number(added.segments) });
  }

  show();
  fillModels(models, await get("models").catch(() => ({ models: [] })));
}
