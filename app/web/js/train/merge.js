// Spellings to merge: labels that look alike, offered; and others, chosen by hand. What comes out is a job's `map`.
import { append, fill, h } from "../dom.js";
import { number, t } from "../i18n.js";

/** Code points of a label whose characters do not show themselves. @param {string} label */
export function shown(label) {
  return /^[\x21-\x7e]+$/.test(label) ? "" : ` (${[...label].map((one) => `U+${(one.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ")})`;
}

export function mergeTable() {
  const groups = h("div", { class: "stack" });
  const rows = h("div", { class: "stack" });
  const known = h("datalist", { id: "known-labels" });
  const element = h("section", { class: "stack" });
  /** @type {(() => [string, string | null][])[]} */
  const sources = [];

  /**
   * @param {{labels: Record<string, number>, difference: string}[]} alike
   * @param {string[]} labels
   */
  function offer(alike, labels) {
    fill(known, labels.map((label) => h("option", { value: label })));
    fill(groups, alike.map((group) => {
      const members = Object.keys(group.labels);
      const use = h("input", { type: "checkbox" });
      const into = h("select", { "aria-label": t("merge.into") }, members.map((label) => h("option", { value: label }, `${label}${shown(label)}`)));
      sources.push(() => (use.checked ? members.filter((label) => label !== into.value).map((label) => [label, into.value]) : []));
      return h("div", { class: "row merge" }, h("label", { class: "check" }, use, h("span", null, members.map((label, i) => [i > 0 && " + ", h("span", { class: "phone" }, label), h("span", { class: "soft" }, `${shown(label)} × ${number(group.labels[label] ?? 0)}`)]))),
        h("label", { class: "row" }, h("span", { class: "soft" }, t("merge.into")), into), h("span", { class: "soft" }, t("merge.differ", { difference: group.difference })));
    }));
    fill(element, h("h2", null, t("merge.title")), alike.length > 0 ? groups : h("p", { class: "soft" }, t("merge.none")), rows, known,
      h("div", { class: "row" }, h("button", { type: "button", onclick: add }, t("merge.add"))));
  }

  function add() {
    const from = h("input", { type: "text", class: "phone", "aria-label": t("merge.from"), placeholder: t("merge.from"), maxLength: 200 });
    const to = h("input", { type: "text", class: "phone", "aria-label": t("merge.into"), placeholder: t("merge.nothing"), maxLength: 200 });
    for (const input of [from, to]) input.setAttribute("list", "known-labels");
    const row = h("div", { class: "row merge" }, from, "→", to, h("button", { type: "button", class: "quiet", onclick: () => {
      row.remove();
      from.value = "";
    } }, t("merge.remove")));
    sources.push(() => (from.value ? [[from.value, to.value || null]] : []));
    append(rows, [row]);
    from.focus();
  }

  return {
    element,
    offer,
    /** @returns {Record<string, string | null>} */
    mapping: () => Object.fromEntries(sources.flatMap((source) => source())),
  };
}
