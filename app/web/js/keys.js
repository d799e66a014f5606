// API keys: who may ask the service for what. A new key is shown once.
import { describeError, get, post, request } from "./api.js";
import { fill, h } from "./dom.js";
import { t, when } from "./i18n.js";

const SCOPES = /** @type {const} */ (["read", "label", "train", "admin"]);

/** @param {HTMLElement} main */
export async function openKeys(main) {
  document.title = `${t("keys.show")} · Phonechain`;
  const list = h("div", { class: "scroll-x", tabIndex: 0, role: "region", "aria-label": t("keys.show") });
  const note = h("div", { role: "status" });
  const name = h("input", { type: "text", required: true, maxLength: 200 });
  const scope = h("select", null, SCOPES.map((one) => h("option", { value: one }, t(`keys.scope.${one}`))));
  const form = h("form", { class: "row ends", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const made = await post("keys", { name: name.value, scopes: [scope.value] });
      fill(note, h("p", null, t("keys.made", { name: made.name })), h("code", { class: "secret" }, made.key));
      name.value = "";
      await load();
    } catch (error) {
      refused(error);
    }
  } }, h("label", { class: "filter" }, h("span", null, t("keys.name")), name), h("label", { class: "filter" }, h("span", null, t("keys.scope")), scope), h("button", { class: "primary" }, t("keys.make")));
  fill(main, h("div", { class: "sheet" }, h("h1", null, t("keys.show")), h("p", { class: "soft" }, t("keys.lead")), form, note, list));

  async function load() {
    const { keys } = await get("keys");
    if (keys.length === 0) scope.value = "admin"; // the first one has to be
    fill(list, keys.length === 0 ? h("p", { class: "soft" }, t("keys.none")) : h("table", null,
      h("thead", null, h("tr", null, h("th", null, t("keys.name")), h("th", null, t("keys.scope")), h("th", null, t("keys.created")), h("th", null, h("span", { class: "visually-hidden" }, t("keys.revoke"))))),
      h("tbody", null, keys.map((/** @type {any} */ key) => h("tr", null, h("td", null, key.name), h("td", null, key.scopes.join(", ")), h("td", null, when(key.created)),
        h("td", null, key.revoked ? t("keys.revoked", { time: when(key.revoked) }) : h("button", { class: "danger", onclick: () => void revoke(key.id), "aria-label": t("keys.revoke.named", { name: key.name }) }, t("keys.revoke"))))))));
  }

  /** @param {string} id */
  async function revoke(id) {
    try {
      await request("DELETE", `keys/${encodeURIComponent(id)}`);
      await load();
    } catch (error) {
      refused(error);
    }
  }

  /** @param {any} error */
  function refused(error) {
    fill(note, h("p", { class: "bad" }, describeError(error)));
  }

  await load();
}
