// The frame of the page: views by the address after #, theme, sign-in.
import { events, Problem, signedIn, signIn } from "./api.js";
import { append, fill, h, icon } from "./dom.js";
import { openHome } from "./home.js";
import { t } from "./i18n.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const VIEWS = /** @type {const} */ ([["#/", "nav.reviews"], ["#/align", "nav.align"], ["#/train", "nav.train"], ["#/jobs", "nav.jobs"], ["#/models", "nav.models"], ["#/keys", "keys.show"]]);

/** @type {() => void} */
let close = () => {};
let turn = 0;

async function route() {
  const own = ++turn;
  close();
  close = () => {};
  const [view = "", id = "", part = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  for (const link of document.querySelectorAll("#nav a[data-view]")) {
    const active = link.getAttribute("data-view") === (["review", "next", "home"].includes(view) ? "#/" : `#/${view}`);
    if (active) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.className = view ? `view-${/^[a-z]+$/.test(view) ? view : "home"}` : "view-home";
  try {
    let closing;
    if (view === "review") closing = await (await import("./review/view.js")).openReview(main, id, part);
    else if (view === "align") await (await import("./align.js")).openAlign(main);
    else if (view === "train") closing = await (await import("./train/view.js")).openTrain(main, id);
    else if (view === "next") await (await import("./train/next.js")).openNext(main, id);
    else if (view === "jobs") closing = await (await import("./jobs.js")).openJobs(main, id);
    else if (view === "models") await (await import("./models.js")).openModels(main);
    else if (view === "keys") await (await import("./keys.js")).openKeys(main);
    else await openHome(main, view === "home" ? id : "");
    if (closing && own === turn) close = closing;
    else if (closing) closing();
  } catch (error) {
    if (own !== turn) return;
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) askForKey(error);
    else fill(main, h("div", { class: "refusal", role: "alert" }, h("h1", null, error.document["title"] ?? ""), h("p", null, error.message), h("button", { onclick: () => void route() }, t("error.again"))));
  }
}

/** A part of the address; what is no encoded text stays as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {Problem} problem */
function askForKey(problem) {
  const input = h("input", { type: "password", autocomplete: "off", required: true, id: "key", "aria-describedby": "key-hint" });
  fill(main, h("form", { class: "sign-in", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    signIn(input.value);
    void route();
  } }, h("h1", null, t("key.title")), signedIn() && h("p", { class: "bad", role: "alert" }, problem.message), h("label", { for: "key" }, t("key.label")), input, h("p", { class: "soft", id: "key-hint" }, t("key.hint")), h("button", { class: "primary" }, t("key.submit"))));
  input.focus();
}

const THEMES = /** @type {const} */ (["auto", "light", "dark"]);

function frame() {
  const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
  append(nav, VIEWS.map(([href, text]) => h("a", { href, "data-view": href }, t(text))));
  nav.append(h("a", { href: "guide" }, t("nav.guide")), h("a", { href: "docs" }, t("nav.docs")));
  const end = /** @type {HTMLElement} */ (document.getElementById("bar-end"));
  let theme = stored();
  const toggle = h("button", { class: "quiet", onclick: () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    try {
      localStorage.setItem("theme", theme);
    } catch {} // a choice of colours; nothing is lost without it
    show();
  } }, icon("theme"));
  const out = h("button", { class: "quiet", hidden: true, onclick: () => {
    signIn("");
    void route();
  } }, t("key.out"));
  const show = () => {
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    toggle.title = t(`theme.${theme}`);
    toggle.setAttribute("aria-label", t(`theme.${theme}`));
    /** @type {any} */ (window).phonechainReview?.timeline.recolour();
  };
  append(end, [out, toggle]);
  show();
  events.addEventListener("key", () => (out.hidden = !signedIn()));
}

/** @returns {"auto" | "light" | "dark"} */
function stored() {
  try {
    const known = localStorage.getItem("theme");
    return THEMES.find((one) => one === known) ?? "auto";
  } catch {
    return "auto";
  }
}

frame();
window.addEventListener("hashchange", () => void route());
void route();
