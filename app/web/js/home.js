// The first view: drop files, try the sample, go on with a review.
import { get, post, Problem, request } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { number, t, when } from "./i18n.js";
import { stem } from "./review/list.js";

const SOUNDS = /\.(wav|flac|ogg|oga|opus|mp3|m4a|mp4|aac|aif|aiff|aifc|au|snd|caf|w64|rf64|sph|nist|webm|mkv|mka|amr|avi|mpg|mpeg|wma)$/i;
const SAMPLE = "LJ001-0002";

/** @typedef {{file: File, folder: string}} Dropped */
/** @typedef {{name: string, audio?: Dropped, segments?: Dropped}} Pair */

/**
 * @param {HTMLElement} main
 */
export async function openHome(main) {
  document.title = "Phonechain";
  const options = { model: "default", tier: "" };
  const reviews = h("ul", { class: "cards" });
  const more = h("div");
  const work = h("div", { class: "work", "aria-live": "polite" });
  const input = h("input", { type: "file", multiple: true, hidden: true, onchange: () => void take([...input.files].map((file) => ({ file, folder: "" }))) });
  const models = h("select", { onchange: () => (options.model = models.value) }, h("option", { value: "default" }, "default"));
  const zone = h("div", { class: "drop" },
    icon("drop"),
    h("p", { class: "drop-title" }, t("home.drop")),
    h("p", { class: "soft" }, t("home.hint")),
    h("div", { class: "row" }, h("button", { class: "primary", onclick: () => input.click() }, t("home.choose")), h("button", { onclick: () => void sample() }, t("home.sample"))),
    h("div", { class: "row options-row" },
      h("label", { class: "filter" }, h("span", null, t("home.model")), models),
      h("label", { class: "filter" }, h("span", null, t("home.tier")), h("input", { type: "text", maxLength: 200, placeholder: t("home.tier.guess"), oninput: (/** @type {any} */ event) => (options.tier = event.target.value) }))),
    input);
  const page = h("div", { class: "home" },
    h("div", { class: "lead" }, h("h1", null, t("home.title")), h("p", null, t("home.lead"))),
    zone, work, h("h2", null, t("home.reviews")), reviews, more);
  fill(main, page);
  // Anywhere on the page: a file that misses the box must not replace the page.
  page.addEventListener("dragover", (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  page.addEventListener("dragleave", () => zone.classList.remove("over"));
  page.addEventListener("drop", async (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (event.dataTransfer) await take(await filesOf(event.dataTransfer));
  });

  async function sample() {
    const [audio, segments] = await Promise.all(["flac", "TextGrid"].map(async (suffix) => new File([await (await request("GET", `page/samples/${SAMPLE}.${suffix}`)).blob()], `${SAMPLE}.${suffix}`)));
    await take([audio, segments].map((file) => ({ file: /** @type {File} */ (file), folder: "" })));
  }

  /** @param {Dropped[]} files */
  async function take(files) {
    const pairs = pairUp(files);
    const usable = pairs.filter((pair) => pair.audio && pair.segments);
    const rows = new Map(pairs.map((pair) => [pair, h("li", null, h("span", { class: "cut" }, pair.name), h("span", { class: "state soft" }, pair.audio && pair.segments ? t("upload.waiting") : t(pair.audio ? "upload.alone.audio" : "upload.alone.annotation")))]));
    const state = (/** @type {Pair} */ pair, /** @type {string} */ text, kind = "soft") => {
      const cell = rows.get(pair).querySelector(".state");
      cell.className = `state ${kind}`;
      cell.textContent = text;
    };
    const after = h("div", { class: "row" });
    fill(work, h("h2", null, usable.length === 1 ? t("upload.title.one") : t("upload.title", { count: number(usable.length) })), h("ul", { class: "uploads" }, [...rows.values()]), after);
    if (usable.length === 0) {
      fill(after, h("p", { class: "bad" }, t("upload.nothing")));
      return;
    }
    try {
      const first = /** @type {Pair} */ (usable[0]);
      const review = await post("reviews", { name: (usable.length === 1 ? first.name : first.audio?.folder.split("/")[0] || `${first.name} +${usable.length - 1}`).slice(0, 200) });
      let good = 0;
      const pending = [...usable];
      const worker = async () => {
        for (let pair = pending.shift(); pair; pair = pending.shift()) {
          state(pair, t("upload.sending"));
          try {
            const added = await send(review.id, pair);
            good++;
            state(pair, t("upload.done", { count: number(added.segments) }), "good");
          } catch (error) {
            state(pair, error instanceof Problem ? error.message : String(error), "bad");
          }
        }
      };
      await Promise.all([worker(), worker()]);
      if (good === pairs.length) location.hash = `#/review/${review.id}`;
      else if (good > 0) fill(after, h("a", { class: "button primary", href: `#/review/${review.id}` }, t("upload.open")));
      else await request("DELETE", `reviews/${review.id}`);
    } catch (error) {
      fill(after, h("p", { class: "bad" }, error instanceof Problem ? error.message : String(error)));
    }
  }

  /**
   * @param {string} id
   * @param {Pair} pair
   */
  async function send(id, pair) {
    const form = new FormData();
    const audio = /** @type {Dropped} */ (pair.audio);
    const segments = /** @type {Dropped} */ (pair.segments);
    form.set("audio", audio.file, audio.file.name);
    form.set("segments", segments.file, segments.file.name);
    form.set("model", options.model);
    if (options.tier.trim()) form.set("tier", options.tier.trim());
    const folder = audio.folder.split("/").filter(Boolean).pop();
    if (folder) form.set("speaker", folder.slice(0, 200));
    for (let wait = 500; ; wait *= 2) {
      try {
        return await (await request("POST", `reviews/${id}/files`, { body: form })).json();
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 503 || wait > 8000) throw error;
        await new Promise((resume) => setTimeout(resume, wait)); // the service is busy
      }
    }
  }

  /** @param {string} [cursor] */
  async function load(cursor) {
    const page = await get(`reviews?limit=20${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    if (!cursor) fill(reviews);
    for (const review of page.reviews) reviews.append(card(review));
    fill(more, page.next && h("button", { onclick: () => void load(page.next) }, t("home.more")));
    if (reviews.children.length === 0) fill(more, h("p", { class: "soft" }, t("home.empty")));
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
          if (reviews.children.length === 0) fill(more, h("p", { class: "soft" }, t("home.empty")));
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
  const known = await get("models").catch(() => ({ models: [] }));
  const names = known.models.map((/** @type {any} */ model) => model.name);
  if (names.length > 0) fill(models, names.map((/** @type {string} */ name) => h("option", { value: name, selected: name === "default" }, name)));
}

/**
 * Recordings and annotations of the same name, in the same folder.
 * @param {Dropped[]} files
 * @returns {Pair[]}
 */
export function pairUp(files) {
  /** @type {Map<string, Pair>} */
  const pairs = new Map();
  for (const one of files) {
    const base = one.file.name;
    if (base.startsWith(".")) continue;
    const name = stem(base);
    const key = `${one.folder}/${name}`;
    const pair = pairs.get(key) ?? { name };
    pairs.set(key, pair);
    if (SOUNDS.test(base) || one.file.type.startsWith("audio/")) pair.audio ??= one;
    else if (!pair.segments || /\.textgrid$/i.test(base)) pair.segments = one;
  }
  const found = [...pairs.values()];
  // One recording and one annotation belong together, whatever they are called.
  if (found.length === 2) {
    const audio = found.find((pair) => pair.audio && !pair.segments);
    const segments = found.find((pair) => pair.segments && !pair.audio);
    if (audio?.audio && segments?.segments) return [{ name: audio.name, audio: audio.audio, segments: segments.segments }];
  }
  return found.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/**
 * Everything that was dropped, folders opened.
 * @param {DataTransfer} transfer
 * @returns {Promise<Dropped[]>}
 */
async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry !== null && entry !== undefined);
  if (entries.length === 0) return [...transfer.files].map((file) => ({ file, folder: "" }));
  /** @type {Dropped[]} */
  const out = [];
  const walk = async (/** @type {any} */ entry, /** @type {string} */ folder) => {
    if (entry.isFile) {
      out.push({ file: await new Promise((done, fail) => entry.file(done, fail)), folder });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      /** @type {any[]} */
      const some = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (some.length === 0) break;
      for (const one of some) await walk(one, folder ? `${folder}/${entry.name}` : entry.name);
    }
  };
  for (const entry of entries) await walk(entry, "");
  return out;
}
