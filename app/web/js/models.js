// Models: cards with what they were trained on and how good they are; the default, files, deleting.
import { describeError, download, get, request } from "./api.js";
import { fill, h } from "./dom.js";
import { number, t, when } from "./i18n.js";
import { facts } from "./jobs.js";

const KINDS = /** @type {const} */ (["", "labelling", "alignment"]);

/** @param {HTMLElement} main */
export async function openModels(main) {
  document.title = `${t("nav.models")} · Phonechain`;
  const list = h("div", { class: "models" });
  const kind = h("select", { onchange: () => void load().catch(refused) }, KINDS.map((one) => h("option", { value: one }, t(`models.kind.${one}`))));
  const note = h("div", { role: "status" });
  const input = h("input", { type: "file", hidden: true, accept: ".safetensors", onchange: () => void upload(input.files[0]) });
  fill(main, h("div", { class: "sheet" }, h("h1", null, t("nav.models")), h("p", { class: "soft" }, t("models.lead")), h("div", { class: "row ends" }, h("button", { onclick: () => input.click() }, t("models.upload")), input, h("label", { class: "filter" }, h("span", null, t("models.kind")), kind)), note, list));

  async function load() {
    const { models, aliases } = await get(kind.value ? `models?kind=${kind.value}` : "models");
    fill(list, models.length > 0 ? models.map((/** @type {any} */ model) => card(model, aliases)) : h("p", { class: "soft" }, t("models.none")));
  }

  /**
   * @param {any} model
   * @param {any[]} aliases
   */
  function card(model, aliases) {
    const own = aliases.filter((one) => one.name === model.name && one.version === model.version).map((one) => one.alias);
    const stored = model.created !== null && model.created !== undefined;
    const exact = stored ? `${model.name}@${model.version}` : model.name;
    const path = `models/${encodeURIComponent(exact)}`;
    const body = h("div", { class: "model-body" });
    const actions = h("div", { class: "row" });
    const details = h("details", { ontoggle: () => details.open && body.children.length === 0 && void show() }, h("summary", null, t("models.card")), body);
    const rest = () => fill(actions,
      h("button", { onclick: () => void download(`${path}/file`).catch(refused) }, t("models.file")),
      stored && model.kind === "labelling" && !own.includes("default") && h("button", { onclick: () => void act("PUT", "aliases/default", { model: exact }) }, t("models.default")),
      stored && h("button", { class: "danger", onclick: () => {
        fill(actions, h("span", null, t("models.delete.sure", { name: exact })), h("button", { class: "danger", onclick: () => void act("DELETE", path) }, t("home.delete.yes")), h("button", { onclick: rest }, t("home.delete.no")));
        actions.querySelector("button")?.focus();
      } }, t("home.delete")));
    async function show() {
      try {
        const { card: members } = await get(path);
        fill(body, facts(members));
      } catch (error) {
        refused(error);
      }
    }
    rest();
    return h("article", { class: "panel" },
      h("h2", null, model.name, own.map((alias) => h("span", { class: "mark done" }, alias))),
      h("p", { class: "soft" }, [t(`models.${/** @type {"labelling" | "alignment"} */ (model.kind)}`), model.title !== model.name && model.title, model.version, t("models.labels", { count: number(model.labels) }), stored && when(model.created)].filter(Boolean).join(" · ")),
      details, actions);
  }

  /** @param {File | undefined} file */
  async function upload(file) {
    if (!file) return;
    try {
      const name = file.name.replace(/\.safetensors$/, "").slice(0, 200);
      fill(note, h("p", null, t("models.uploading", { name: file.name })));
      await request("POST", `models?name=${encodeURIComponent(name)}`, { body: file, headers: { "Content-Type": "application/octet-stream" } });
      fill(note);
      await load();
    } catch (error) {
      refused(error);
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {any} [json]
   */
  async function act(method, path, json) {
    try {
      await request(method, path, json === undefined ? {} : { json });
      fill(note);
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
