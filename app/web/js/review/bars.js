// The two bars of the review screen: tools above the timeline, progress and what can be done with the whole below.
import { fill, h, icon } from "../dom.js";
import { gradient } from "../colors.js";
import { number, t, when } from "../i18n.js";

export const SPEEDS = [1, 0.75, 0.5, 0.25];

/** @param {import("./view.js").ReviewView} view */
export function paintTools(view) {
  const { player } = view;
  const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.["tool"];
  const button = (/** @type {string} */ name, /** @type {any} */ pictogram, /** @type {any} */ text, /** @type {any} */ value = undefined, /** @type {any} */ pressed = undefined) =>
    h("button", { class: "tool", title: text, "aria-label": text, onclick: () => view.do(name, value), "aria-pressed": pressed === undefined ? null : String(pressed), data: { tool: name + (value ?? "") } }, icon(pictogram));
  fill(view.tools,
    player.playing ? button("stop", "stop", t("tool.stop")) : button("play", "play", t("tool.play")),
    button("context", "context", t("tool.context")),
    button("loop", "loop", t("tool.loop"), undefined, player.loop),
    h("label", { class: "speed" }, h("span", { class: "visually-hidden" }, t("tool.speed")), h("select", { data: { tool: "speed" }, onchange: (/** @type {any} */ event) => view.setSpeed(Number(event.target.value)) }, SPEEDS.map((one) => h("option", { value: one, selected: one === player.speed }, `${one}×`)))),
    h("span", { class: "gap" }),
    button("zoom", "minus", t("tool.out"), 1.5), button("zoom", "plus", t("tool.in"), 1 / 1.5), button("whole", "whole", t("tool.whole")),
    h("span", { class: "legend" }, h("span", null, t("legend.low")), h("span", { class: "scale", style: { background: gradient() } }), h("span", null, t("legend.high"))));
  if (focused) /** @type {HTMLElement | null} */ (view.tools.querySelector(`[data-tool="${CSS.escape(focused)}"]`) ?? view.tools.querySelector("[data-tool=play], [data-tool=stop]"))?.focus();
}

/** @param {import("./view.js").ReviewView} view */
export function paintFoot(view) {
  const { store } = view;
  const { segments, reviewed, changed } = store.counts();
  const state = store.problem?.transient ? t("foot.offline", { reason: store.problem.message })
    : store.queue.length > 0 ? t("foot.saving", { count: store.queue.length })
    : store.saved ? t("foot.saved", { time: when(store.saved) }) : "";
  const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.["foot"];
  fill(view.foot,
    h("span", { class: "tabular short", "aria-hidden": "true" }, `${number(reviewed)} / ${number(segments)}`),
    h("span", { class: "tabular long" }, t("foot.count", { reviewed: number(reviewed), segments: number(segments), changed: number(changed) })),
    h("progress", { max: Math.max(1, segments), value: reviewed, "aria-label": t("foot.count", { reviewed, segments, changed }) }),
    h("span", { class: `message${store.problem ? " bad" : ""}`, role: "status" }, view.message || state),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: view.autoplay, onchange: (/** @type {any} */ event) => (view.autoplay = event.target.checked), data: { foot: "auto" } }), t("tool.auto")),
    h("button", { onclick: () => view.do("undo"), disabled: !store.canUndo, data: { foot: "undo" } }, icon("undo"), t("foot.undo")),
    h("button", { onclick: () => view.do("redo"), disabled: !store.canRedo, data: { foot: "redo" } }, icon("redo"), t("foot.redo")),
    h("button", { onclick: () => view.do("history"), title: t("foot.history.help"), data: { foot: "history" } }, icon("history"), t("foot.history")),
    h("button", { onclick: (/** @type {any} */ event) => void view.train(event.currentTarget), disabled: reviewed === 0, title: t("foot.train.help"), data: { foot: "train" } }, icon("train"), t("foot.train")),
    h("a", { class: "button", href: `#/next/${store.id}`, title: t("foot.next.help"), data: { foot: "next" } }, icon("next"), t("foot.next")),
    h("button", { class: "primary", onclick: () => void view.download(), title: t("foot.download.help"), data: { foot: "download" } }, icon("download"), t("foot.download")),
    h("button", { class: "quiet", onclick: () => view.do("help"), "aria-label": t("help.help"), title: t("help.title"), data: { foot: "help" } }, h("kbd", null, "?")));
  if (focused) /** @type {HTMLElement | null} */ (view.foot.querySelector(`[data-foot="${focused}"]`))?.focus();
}
