// Files on their way to the service: a row for each with its state, two at a time, again where the service is busy.
import { Problem, request } from "./api.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";

/** @typedef {import("./drop.js").Pair} Pair */

export class Uploads {
  /**
   * @param {Pair[]} pairs
   * @param {(pair: Pair) => string} first the state of a row to begin with
   */
  constructor(pairs, first) {
    this.rows = new Map(pairs.map((pair) => [pair, h("li", null, h("span", { class: "cut" }, pair.name), h("span", { class: "state soft" }, first(pair)))]));
    this.element = h("ul", { class: "uploads", tabIndex: 0, "aria-label": t("upload.list") }, [...this.rows.values()]);
  }

  /**
   * @param {Pair} pair
   * @param {string} text
   * @param {string} [kind]
   */
  state(pair, text, kind = "soft") {
    const cell = this.rows.get(pair).querySelector(".state");
    cell.className = `state ${kind}`;
    cell.textContent = text;
  }

  /**
   * Send each; returns those that were taken.
   * @param {Pair[]} pairs
   * @param {(pair: Pair) => Promise<string>} send gives what the row says then
   */
  async run(pairs, send) {
    /** @type {Pair[]} */
    const good = [];
    const pending = [...pairs];
    const worker = async () => {
      for (let pair = pending.shift(); pair; pair = pending.shift()) {
        this.state(pair, t("upload.sending"));
        try {
          this.state(pair, await send(pair), "good");
          good.push(pair);
        } catch (error) {
          this.state(pair, wordsOf(error), "bad");
        }
      }
    };
    await Promise.all([worker(), worker()]);
    return good;
  }
}

/**
 * Post a form, and wait where the service is busy.
 * @param {string} path
 * @param {FormData | Record<string, string | Blob | {file: Blob, name: string} | null | undefined>} fields
 * @returns {Promise<any>}
 */
export async function postForm(path, fields) {
  const form = fields instanceof FormData ? fields : new FormData();
  for (const [name, value] of fields instanceof FormData ? [] : Object.entries(fields)) {
    if (value === null || value === undefined || value === "") continue;
    if (typeof value === "string") form.set(name, value);
    else if (value instanceof Blob) form.set(name, value, name);
    else form.set(name, value.file, value.name);
  }
  return postWhenFree(path, { body: form });
}

/**
 * Post, again and again while the service says that it is busy.
 * @param {string} path
 * @param {{json?: any, body?: FormData}} options
 * @returns {Promise<any>}
 */
export async function postWhenFree(path, options) {
  for (let wait = 500; ; wait *= 2) {
    try {
      return await (await request("POST", path, options)).json();
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 503 || wait > 8000) throw error;
      await new Promise((resume) => setTimeout(resume, wait));
    }
  }
}

/** What is said of an error. @param {unknown} error */
export function wordsOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * The models as options of a select, the default first.
 * @param {any} select
 * @param {{models: any[]}} known
 * @param {string} [chosen]
 */
export function fillModels(select, known, chosen = "default") {
  const names = [...new Set(known.models.map((/** @type {any} */ model) => model.name))];
  if (names.length > 0) fill(select, names.map((/** @type {string} */ name) => h("option", { value: name, selected: name === chosen }, name)));
}
