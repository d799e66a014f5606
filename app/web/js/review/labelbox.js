// The box in which a label is typed, completed from the labels there are.
import { fill, h } from "../dom.js";
import { t } from "../i18n.js";

const SHOWN = 8;

export class LabelBox {
  /** @param {(label: string) => void} done */
  constructor(done) {
    this.done = done;
    /** @type {string[]} */
    this.labels = [];
    /** @type {string[]} */
    this.shown = [];
    this.at = -1;
    this.options = h("ul", { class: "options", role: "listbox", id: "label-options", "aria-label": t("label.box") });
    this.input = h("input", {
      type: "text", class: "phone", autocomplete: "off", autocapitalize: "off", spellcheck: false, maxLength: 200, role: "combobox",
      "aria-label": t("label.box"), "aria-expanded": "true", "aria-controls": "label-options", "aria-autocomplete": "list", "aria-describedby": "label-hint",
      oninput: () => this.#suggest(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event), onblur: () => this.close(),
    });
    this.note = h("p", { class: "soft", id: "label-hint" }, t("label.hint"));
    this.element = h("div", { class: "label-box", hidden: true }, this.input, this.options, this.note);
    /** @type {HTMLElement | null} */
    this.back = null;
  }

  get open() {
    return !this.element.hidden;
  }

  /**
   * @param {string} text
   * @param {string[]} labels
   */
  show(text, labels) {
    this.back = /** @type {HTMLElement | null} */ (document.activeElement);
    this.labels = labels;
    this.element.hidden = false;
    this.input.value = text;
    this.input.focus();
    this.input.setSelectionRange(text.length, text.length);
    this.#suggest();
  }

  close() {
    if (!this.open) return;
    this.element.hidden = true;
    this.back?.focus();
  }

  #suggest() {
    const typed = this.input.value;
    const lower = typed.toLowerCase();
    const ranked = this.labels
      .filter((label) => label.toLowerCase().startsWith(lower))
      .sort((a, b) => Number(b === typed) - Number(a === typed) || Number(b.startsWith(typed)) - Number(a.startsWith(typed)) || a.length - b.length || a.localeCompare(b));
    this.shown = ranked.slice(0, SHOWN);
    this.at = -1;
    this.#paint();
  }

  #paint() {
    const shown = this.shown;
    const value = this.value();
    fill(this.options, shown.map((label, i) => h("li", {
      role: "option", id: `label-${i}`, class: `phone${i === this.at || (this.at < 0 && label === value) ? " chosen" : ""}`, "aria-selected": i === this.at ? "true" : "false",
      // Before the input loses the focus, and with it the box.
      onpointerdown: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.#finish(label);
      },
    }, label)));
    if (this.at >= 0) this.input.setAttribute("aria-activedescendant", `label-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
    const fresh = value !== "" && !this.labels.includes(value);
    this.note.textContent = fresh ? `${t("label.new")}. ${t("label.hint")}` : t("label.hint");
  }

  /** What Enter sets: the chosen suggestion, else the label as typed, in whatever case there is such a label. */
  value() {
    const chosen = this.shown[this.at];
    if (chosen !== undefined) return chosen;
    const typed = this.input.value.trim();
    if (this.labels.includes(typed)) return typed;
    return this.labels.find((label) => label.toLowerCase() === typed.toLowerCase()) ?? typed;
  }

  /** @param {string} label */
  #finish(label) {
    this.close();
    this.done(label);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    event.stopPropagation();
    const count = this.shown.length;
    if (event.key === "Enter") this.#finish(this.value());
    else if (event.key === "Escape") this.close();
    else if (event.key === "Tab" && count > 0) {
      this.input.value = this.shown[Math.max(0, this.at)] ?? "";
      this.#suggest();
    } else if (event.key === "ArrowDown" && count > 0) {
      this.at = (this.at + 1) % count;
      this.#paint();
    } else if (event.key === "ArrowUp" && count > 0) {
      this.at = (this.at + count - 1 + Number(this.at < 0)) % count;
      this.#paint();
    } else return;
    event.preventDefault();
  }
}
