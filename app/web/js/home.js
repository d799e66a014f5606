// The first view: drop files, try the sample, go on with a review.
import { get, post, request } from "./api.js";
import { append, fill, h, icon } from "./dom.js";
import { dropZone, nameOf, pairUp, sampleFiles, speakerOf } from "./drop.js";
import { number, t, when } from "./i18n.js";
import { fillModels, postForm, Uploads, wordsOf } from "./uploads.js";

/** @typedef {import("./drop.js").Dropped} Dropped */
/** @typedef {import("./drop.js").Pair} Pair */

const STEPS = /** @type {const} */ (["drop", "check", "download"]);

/**
 * @param {HTMLElement} main
 * @param {string} [model] the model to label with, the default where it is left out
 */
export async function openHome(main, model = "") {
  document.title = "Phonechain";
  const options = { model: model || "default", tier: "" };
  const reviews = h("ul", { class: "cards" });
  const more = h("div");
  const work = h("div", { class: "work", "aria-live": "polite" });
  const models = h("select", { onchange: () => (options.model = models.value) }, h("option", { value: options.model }, options.model));
  const page = h("div", { class: "home" });
  const zone = dropZone(page, { title: t("home.drop"), hint: t("home.hint"), take, folder: true, sample: async () => take(await sampleFiles("flac", "TextGrid")) },
    h("div", { class: "row options-row" },
      h("label", { class: "filter" }, h("span", null, t("home.model")), models),
      h("label", { class: "filter" }, h("span", null, t("home.tier")), h("input", { type: "text", maxLength: 200, placeholder: t("home.tier.guess"), oninput: (/** @type {any} */ event) => (options.tier = event.target.value) }))));
  append(page, [h("div", { class: "lead" }, h("h1", null, t("home.title")), h("p", null, t("home.lead"), " ", h("a", { href: "#/align" }, t("home.align")))),
    zone, work, h("h2", null, t("home.reviews")), reviews, more]);
  fill(main, page);

  /** @param {Dropped[]} files */
  async function take(files) {
    const pairs = pairUp(files);
    const usable = pairs.filter((pair) => pair.audio && pair.segments);
    const uploads = new Uploads(pairs, (pair) => t(pair.audio && pair.segments ? "upload.waiting" : pair.audio ? "upload.alone.audio" : "upload.alone.annotation"));
    const after = h("div", { class: "row" });
    fill(work, h("h2", null, usable.length === 1 ? t("upload.title.one") : t("upload.title", { count: number(usable.length) })), uploads.element, after);
    if (usable.length === 0) {
      fill(after, h("p", { class: "bad" }, t("upload.nothing")), pairs.some((pair) => pair.audio) && h("a", { class: "button", href: "#/align" }, t("home.align")));
      return;
    }
    try {
      const review = await post("reviews", { name: nameOf(usable) });
      const good = await uploads.run(usable, async (pair) => t("upload.done", { count: number((await send(review.id, pair, usable)).segments) }));
      if (good.length === pairs.length) location.hash = `#/review/${review.id}`;
      else if (good.length > 0) fill(after, h("a", { class: "button primary", href: `#/review/${review.id}` }, t("upload.open")));
      else await request("DELETE", `reviews/${review.id}`);
    } catch (error) {
      fill(after, h("p", { class: "bad" }, wordsOf(error)));
    }
  }

  /**
   * @param {string} id
   * @param {Pair} pair
   * @param {Pair[]} all
   */
  async function send(id, pair, all) {
    const audio = /** @type {Dropped} */ (pair.audio);
    const segments = /** @type {Dropped} */ (pair.segments);
    return postForm(`reviews/${id}/files`, {
      audio: { file: audio.file, name: audio.file.name }, segments: { file: segments.file, name: segments.file.name },
      model: options.model, tier: options.tier.trim(), speaker: speakerOf(audio, all),
    });
  }

  /** @param {string} [cursor] */
  async function load(cursor) {
    const page = await get(`reviews?limit=20${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    if (!cursor) fill(reviews);
    for (const review of page.reviews) reviews.append(card(review));
    fill(more, page.next && h("button", { onclick: () => void load(page.next) }, t("home.more")));
    if (reviews.children.length === 0) fill(more, steps());
  }

  /** What a review is, for those who have none yet. */
  function steps() {
    return [h("p", { class: "soft" }, t("home.empty")), h("ol", { class: "steps" }, STEPS.map((step) => h("li", null, h("strong", null, t(`home.step.${step}`)), h("span", { class: "soft" }, t(`home.step.${step}.text`)))))];
  }

  /** @param {any} review */
  function card(review) {
    const end = h("div", { class: "card-end" });
    const element = h("li", null, h("a", { class: "card", href: `#/review/${review.id}` },
      h("span", { class: "card-name cut" }, review.name),
      h("span", { class: "soft" }, review.files === 1 ? t("home.count.one", { segments: number(review.segments) }) : t("home.count", { files: number(review.files), segments: number(review.segments) })),
      h("span", { class: "soft" }, when(review.changed))), end);
    const ask = () => {
      fill(end, h("span", { class: "soft" }, t("home.delete.sure")), h("button", { class: "danger", onclick: async () => {
        try {
          await request("DELETE", `reviews/${review.id}`);
          element.remove();
          if (reviews.children.length === 0) fill(more, steps());
        } catch (error) {
          fill(end, h("span", { class: "bad" }, /** @type {Error} */ (error).message));
        }
      } }, t("home.delete.yes")), h("button", { onclick: rest }, t("home.delete.no")));
      end.querySelector("button")?.focus();
    };
    const rest = () => fill(end, h("button", { class: "quiet", "aria-label": t("home.delete.named", { name: review.name }), title: t("home.delete"), onclick: ask }, icon("trash")));
    rest();
    return element;
  }

  await load();
  fillModels(models, await get("models?kind=labelling").catch(() => ({ models: [] })), options.model);
}
