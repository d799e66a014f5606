// Files that are dropped or chosen: the box for them, folders opened, recordings paired with what lies beside them.
import { request } from "./api.js";
import { h, icon } from "./dom.js";
import { t } from "./i18n.js";
import { stem } from "./review/list.js";

export const SOUNDS = /\.(wav|flac|ogg|oga|opus|mp3|m4a|mp4|aac|aif|aiff|aifc|au|snd|caf|w64|rf64|sph|nist|webm|mkv|mka|amr|avi|mpg|mpeg|wma)$/i;
const SAMPLE = "LJ001-0002";

/** @typedef {{file: File, folder: string}} Dropped */
/** @typedef {{name: string, audio?: Dropped, segments?: Dropped}} Pair */

/**
 * The box that files are dropped on. The whole `page` takes them: one that misses the box must not replace the page.
 * @param {HTMLElement} page
 * @param {{title: string, hint: string, take: (files: Dropped[]) => any, sample?: () => any, folder?: boolean}} options
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function dropZone(page, { title, hint, take, sample, folder }, ...children) {
  const input = h("input", { type: "file", multiple: true, hidden: true, onchange: () => chosen(input) });
  const whole = h("input", { type: "file", multiple: true, hidden: true, onchange: () => chosen(whole), data: { folder: "" } });
  whole.webkitdirectory = true;
  const chosen = (/** @type {HTMLInputElement} */ from) => {
    const files = [...(from.files ?? [])].map((file) => ({ file, folder: file.webkitRelativePath.split("/").slice(0, -1).join("/") }));
    from.value = "";
    void take(files);
  };
  const zone = h("div", { class: "drop" }, icon("drop"), h("p", { class: "drop-title" }, title), h("p", { class: "soft" }, hint),
    h("div", { class: "row" },
      h("button", { class: "primary", onclick: () => input.click() }, t("home.choose")),
      folder && h("button", { onclick: () => whole.click() }, t("drop.folder")),
      sample && h("button", { onclick: () => void sample() }, t("home.sample"))),
    children, input, folder && whole);
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
  return zone;
}

/**
 * Files of the sample.
 * @param {...string} suffixes
 * @returns {Promise<Dropped[]>}
 */
export async function sampleFiles(...suffixes) {
  return Promise.all(suffixes.map(async (suffix) => {
    const response = await request("GET", `page/samples/${SAMPLE}.${suffix}`);
    return { file: new File([await response.blob()], `${SAMPLE}.${suffix}`), folder: "" };
  }));
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
    if (isSound(one.file)) pair.audio ??= one;
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

/** @param {File} file */
export function isSound(file) {
  return SOUNDS.test(file.name) || file.type.startsWith("audio/");
}

/**
 * Whose recording it is: the folder that it lies in. A folder that holds all of them is nobody's name.
 * @param {Dropped} dropped
 * @param {Pair[]} all
 */
export function speakerOf(dropped, all) {
  const tops = new Set(all.map((pair) => pair.audio?.folder.split("/")[0]));
  return dropped.folder.split("/").slice(tops.size === 1 ? 1 : 0).filter(Boolean).pop()?.slice(0, 200);
}

/**
 * What a set of files is called: their common folder, else the first of them and how many more.
 * @param {Pair[]} pairs
 */
export function nameOf(pairs) {
  const first = /** @type {Pair} */ (pairs[0]);
  return (pairs.length === 1 ? first.name : first.audio?.folder.split("/")[0] || `${first.name} +${pairs.length - 1}`).slice(0, 200);
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
