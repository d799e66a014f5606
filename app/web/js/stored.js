// A review of what the service has already: the recordings of a corpus, or what a job labelled or found in them.
import { post, request } from "./api.js";
import { fill, h } from "./dom.js";
import { number, t } from "./i18n.js";
import { postWhenFree, wordsOf } from "./uploads.js";

/** Files of one review, as the service has it. */
const MOST = 2000;

/**
 * A button that opens them as a review, with its progress and what could not be opened below it.
 * @param {{label: string, name: string, count: number, source: {job: string} | {corpus: string}, model?: string}} options
 * @returns {HTMLElement}
 */
export function reviewButton({ label, name, count, source, model }) {
  const total = Math.min(count, MOST);
  const state = h("div", { class: "work", "aria-live": "polite" });
  const button = h("button", { onclick: () => void run() }, label);
  const element = h("div", { class: "stack" }, h("div", { class: "row" }, button), state);

  async function run() {
    button.disabled = true;
    const bar = h("progress", { max: total, value: 0, "aria-label": label });
    const words = h("p", { class: "soft tabular" });
    const failures = h("ul", { class: "uploads", hidden: true, tabIndex: 0, "aria-label": t("upload.list") });
    const say = (/** @type {number} */ done) => {
      bar.value = done;
      words.textContent = t("stored.progress", { done: number(done), total: number(total) });
    };
    fill(state, count > MOST && h("p", { class: "note" }, t("stored.first", { count: number(MOST) })), words, bar, failures);
    try {
      const review = (await post("reviews", { name: name.slice(0, 200) })).id;
      let next = 0, good = 0, done = 0;
      const worker = async () => {
        while (next < total && element.isConnected) { // whoever leaves the page has the review as far as it came
          const place = next++;
          try {
            await postWhenFree(`reviews/${review}/files`, { json: { ...source, place, ...(model ? { model } : {}) } });
            good++;
          } catch (error) {
            failures.hidden = false;
            failures.append(h("li", null, h("span", { class: "cut" }, t("stored.place", { place: number(place + 1) })), h("span", { class: "bad" }, wordsOf(error))));
          }
          say(++done);
        }
      };
      say(0);
      await Promise.all([worker(), worker()]);
      if (!element.isConnected) return;
      if (good === 0) await request("DELETE", `reviews/${review}`).catch(() => {});
      else if (good === total) location.hash = `#/review/${review}`;
      else state.append(h("div", { class: "row" }, h("a", { class: "button primary", href: `#/review/${review}` }, t("upload.open"))));
    } catch (error) {
      state.append(h("p", { class: "bad", role: "alert" }, wordsOf(error)));
      button.disabled = false;
    }
  }

  return element;
}
