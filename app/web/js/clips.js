// Stretches of a corpus that are heard at a press: one player for the whole view.
import { request } from "./api.js";
import { h, icon } from "./dom.js";
import { t } from "./i18n.js";

const CONTEXT = 0.25; // seconds around a segment

/** @typedef {{utterance: string, start?: number, end?: number}} Stretch */

export class Clips {
  /**
   * @param {string} corpus id
   * @param {(message: string) => void} failed
   */
  constructor(corpus, failed) {
    this.corpus = corpus;
    this.failed = failed;
    this.element = new Audio();
    this.url = "";
  }

  /**
   * @param {Stretch} stretch
   * @param {boolean} [context] with a quarter of a second around it
   */
  async play(stretch, context = false) {
    const around = context ? CONTEXT : 0;
    const query = new URLSearchParams({ utterance: stretch.utterance });
    if (stretch.start !== undefined) query.set("start", String(Math.max(0, stretch.start - around)));
    if (stretch.end !== undefined) query.set("end", String(stretch.end + around));
    try {
      const response = await request("GET", `corpora/${encodeURIComponent(this.corpus)}/sound?${query}`);
      this.stop();
      this.url = URL.createObjectURL(await response.blob());
      this.element.src = this.url;
      await this.element.play();
    } catch (error) {
      if (!(error instanceof DOMException)) this.failed(error instanceof Error ? error.message : String(error));
    }
  }

  stop() {
    this.element.pause();
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = "";
  }

  /**
   * @param {Stretch} stretch
   * @param {string} name what is heard, in words
   * @param {boolean} [context]
   */
  button(stretch, name, context = false) {
    return h("button", { class: "quiet hear", title: t("hear"), "aria-label": t("hear.named", { name }), onclick: () => void this.play(stretch, context) }, icon("play"));
  }
}
