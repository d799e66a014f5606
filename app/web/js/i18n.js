// Texts of the page in the language of the browser, English where it has none.
import { en } from "./texts/en.js";

/** @type {Record<string, Record<string, string>>} */
const LANGUAGES = { en };

const language = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag in LANGUAGES) ?? "en";
document.documentElement.lang = language;

/**
 * The text under a name, with `{name}` replaced by values.
 * @param {keyof typeof en} name
 * @param {Record<string, string | number>} [values]
 */
export function t(name, values = {}) {
  const text = LANGUAGES[language]?.[name] ?? en[name] ?? String(name); // a state or kind that this page is too old to know
  return text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
}

/**
 * Seconds with milliseconds.
 * @param {number} value
 */
export function seconds(value) {
  return `${value.toFixed(3)} s`;
}

/**
 * A posterior with two decimals.
 * @param {number | null | undefined} p
 */
export function posterior(p) {
  if (p === null || p === undefined) return "–";
  return p >= 0.995 && p < 1 ? "> 0.99" : p > 0 && p < 0.005 ? "< 0.01" : p.toFixed(2);
}

/** @param {number} count */
export function number(count) {
  return count.toLocaleString(language);
}

/**
 * A time of day, or a date where it is not today.
 * @param {string | Date} moment
 */
export function when(moment) {
  const date = new Date(moment);
  const today = new Date().toDateString() === date.toDateString();
  return today
    ? date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(language, { year: "numeric", month: "short", day: "numeric" });
}

/** A date with its time of day. @param {string} time */
export function moment(time) {
  return new Date(time).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
}
