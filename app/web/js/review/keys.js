// The keyboard of the review screen.
import { h } from "../dom.js";
import { t } from "../i18n.js";

/**
 * @param {import("./view.js").ReviewView} view
 */
export function bindKeys(view) {
  view.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.isComposing || target.matches("input:not([type=checkbox]), textarea, select")) return;
    const onControl = target.matches("button, a, input, summary");
    const inTimeline = target === view.timeline.canvas || target.classList.contains("list-scroll");
    const command = event.ctrlKey || event.metaKey;
    const key = event.key;
    const done = (/** @type {string} */ name, /** @type {any} */ value = undefined) => {
      event.preventDefault();
      view.do(name, value);
    };
    if (command) {
      if (key === "z" || key === "Z") done(event.shiftKey ? "redo" : "undo");
      else if (key === "y") done("redo");
      return;
    }
    if (event.altKey) {
      if (key === "ArrowLeft" || key === "ArrowRight") {
        // Shift takes the start of the segment where no cursor says which boundary is meant.
        view.edge = event.shiftKey ? "start" : "end";
        done("nudge", key === "ArrowLeft" ? -1 : 1);
      }
      return;
    }
    if (key === "Escape") {
      if (!view.help.hidden) return done("help");
      view.leaving = true;
      return done("stop");
    }
    if (key === "Tab") {
      if (inTimeline && !view.leaving) done(event.shiftKey ? "context" : "play");
      view.leaving = false;
      return;
    }
    view.leaving = false;
    if (onControl && (key === "Enter" || key === " ")) return;
    if (key === "Enter") return done("accept");
    if (key === "Backspace" || key === "Delete") return done("answer");
    if (key === " ") return done("on");
    if (key === "F2") return done("box");
    if (key === "?") return done("help");
    if (key === "ArrowLeft") return done("step", -1);
    if (key === "ArrowRight") return done("step", 1);
    if (key === "ArrowUp") return target.classList.contains("list-scroll") ? done("doubtful", -1) : done("zoom", 1 / 1.5);
    if (key === "ArrowDown") return target.classList.contains("list-scroll") ? done("doubtful", 1) : done("zoom", 1.5);
    if (key === "PageUp") return done("doubtful", -1);
    if (key === "PageDown") return done("doubtful", 1);
    if (key === "Home") return done("whole");
    if (event.shiftKey && key === "S") return done("split");
    if (event.shiftKey && key === "M") return done("merge");
    if (event.shiftKey && key === "H") return done("history");
    if (event.shiftKey && key === "L") return done("loop");
    if (event.shiftKey && key === "D") return done("slower");
    if (/^[1-9]$/.test(key)) return done("nth", Number(key) - 1);
    if (key.length === 1 && !/\s/.test(key)) return done("box", key);
  });
}

const KEYS = /** @type {const} */ ([
  ["Enter", "help.Enter"], ["a … z", "help.letter"], ["F2", "help.F2"], ["1 … 8", "help.digit"], ["Backspace", "help.Backspace"], ["Tab", "help.Tab"],
  ["Shift Tab", "help.ShiftTab"], ["Space", "help.Space"], ["← →", "help.arrows"], ["↑ ↓", "help.zoom"], ["Page ↑ ↓", "help.list"], ["Alt ← →", "help.altarrows"],
  ["Shift S", "help.split"], ["Shift M", "help.merge"], ["Ctrl Z, Ctrl Y", "help.undo"], ["Shift H", "help.history"], ["Shift L, Shift D", "help.loop"], ["Escape", "help.escape"], ["?", "help.help"],
]);

/**
 * The list of keys, beside the work and not over it.
 * @param {() => void} close
 */
export function helpPanel(close) {
  return h("section", { class: "help", hidden: true, "aria-label": t("help.title") },
    h("div", { class: "help-head" }, h("h2", null, t("help.title")), h("button", { class: "quiet", onclick: close }, t("help.close"))),
    h("dl", null, KEYS.map(([key, text]) => [h("dt", null, h("kbd", null, key)), h("dd", null, t(text))])));
}
